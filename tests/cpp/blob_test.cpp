#include "src/runtime/blob.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <thread>

#include "src/numeric/denormals.h"
#include "src/runtime/cpu_blob.h"
#include "tests/cpp/testing.h"

namespace jaxator::testing {
namespace {

template <class Body> std::string error_of(Body&& body) {
  try {
    body();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

std::string file_contents(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Blob, HashesOfTheStandard) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Blob, Base64OfTheStandard) {
  const std::pair<const char*, const char*> pairs[] = {{"", ""},
                                                       {"Zg==", "f"},
                                                       {"Zm8=", "fo"},
                                                       {"Zm9v", "foo"},
                                                       {"Zm9vYg==", "foob"},
                                                       {"Zm9vYmE=", "fooba"},
                                                       {"+/+/", "\xfb\xff\xbf"}};
  for (const auto& [text, bytes] : pairs) EXPECT_EQ(decode_base64(text), bytes);
  EXPECT_EQ(error_of([] { decode_base64("Zm9"); }), "blob: 3 characters are no base64");
  EXPECT_EQ(error_of([] { decode_base64("===="); }), "blob: 4 characters are no base64");
  EXPECT_EQ(error_of([] { decode_base64("Zm-v"); }), "blob: character 2 is no digit of base64");
  EXPECT_EQ(error_of([] { decode_base64("Z=9v"); }), "blob: character 1 is no digit of base64");
  EXPECT_EQ(blob_contents("Zm9v", sha256("foo")), "foo");
  EXPECT_EQ(blob_contents("eJxLy88HAAKCAUU=", sha256("foo"), 3), "foo") << "compressed";
  EXPECT_EQ(error_of([] { blob_contents("eJxLy88HAAKCAUU=", sha256("foo"), 2); }),
            "blob: damaged: zlib says -5 after 2 of 2 bytes");
  EXPECT_EQ(error_of([] { blob_contents("eJxLy88HAAKCAUU=", sha256("foo"), 4); }),
            "blob: damaged: zlib says 0 after 3 of 4 bytes");
  EXPECT_EQ(error_of([] { blob_contents("Zm9v", sha256("foo"), 3); }), "blob: damaged: zlib says -3 after 0 of 3 bytes");
  EXPECT_EQ(error_of([] { blob_contents("Zm9v", sha256("foo"), int64_t{1} << 40); }),
            "blob: 3 bytes do not unpack to 1099511627776");
  EXPECT_EQ(error_of([] { blob_contents("Zm9v", "00"); }), "blob: its SHA-256 is " + sha256("foo") + ", the program says 00");
}

TEST(Blob, SharedObjectsAreCheckedBeforeTheLoaderSeesThem) {
  const std::string object = file_contents(JAXATOR_BLOB_KERNELS);
  EXPECT_EQ(error_of([&] { check_shared_object(object); }), "");
  EXPECT_EQ(error_of([] { check_shared_object("PTX"); }),
            "blob: the 3 bytes are no ELF file: must be a shared object for x86-64");
  std::string other = object;
  other[18] = 40;
  EXPECT_EQ(error_of([&] { check_shared_object(other); }), "blob: an ELF file for machine 40: must be for x86-64 (62)");
  other = object;
  other[16] = 2;
  EXPECT_EQ(error_of([&] { check_shared_object(other); }), "blob: an ELF file of type 2: must be a shared object (3)");
  // Cut short anywhere in its segments it is refused; what follows them (names of sections) the loader does not read.
  int refused = 0;
  for (size_t bytes = 0; bytes < object.size(); bytes += bytes < 2000 ? 1 : 61)
    refused += error_of([&] { check_shared_object(object.substr(0, bytes)); }) != "";
  EXPECT_GT(refused, 2000);
  // Damaged headers are refused or harmless: no offset is followed outside.
  std::mt19937_64 random(3);
  for (int i = 0; i < 20000; i++) {
    std::string damaged = object.substr(0, 2000);
    for (int j = 0; j < 4; j++) damaged[16 + random() % 600] = static_cast<char>(random());
    error_of([&] { check_shared_object(damaged); });
  }
}

class CpuBlob : public ::testing::Test {
 protected:
  const std::string object_ = file_contents(JAXATOR_BLOB_KERNELS);

  /// As a blob of another hash: an object is loaded once for each.
  std::string copy(int i) const { return object_ + std::string(static_cast<size_t>(i), 'x'); }
  CpuKernel load(const std::string& object, const std::string& name) { return load_cpu_kernel(sha256(object), object, name); }
};

TEST_F(CpuBlob, EveryBlockRunsOnce) {
  const CpuKernel kernel = load(object_, "scale");
  EXPECT_EQ(find_cpu_kernel(sha256(object_), "scale"), kernel);
  EXPECT_EQ(find_cpu_kernel(sha256(object_), "scales"), nullptr);
  ThreadPool pool(3);
  for (const auto& grid : {std::array<int64_t, 3>{1, 1, 1}, {7, 1, 1}, {3, 5, 2}, {1000, 3, 1}, {1, 1, 511}, {513, 1, 1}}) {
    const int64_t blocks = grid[0] * grid[1] * grid[2], extents[] = {grid[0], grid[1], grid[2]};
    std::vector<float> x(blocks), out(blocks, -1);
    for (int64_t i = 0; i < blocks; i++) x[i] = float(i);
    float a = 3;
    void* arguments[] = {x.data(), out.data(), &a};
    run_cpu_kernel(kernel, "scale", arguments, extents, pool);
    for (int64_t i = 0; i < blocks; i++) ASSERT_EQ(out[i], 3 * float(i));
  }
}

TEST_F(CpuBlob, EveryBlockRunsOnceWhenTasksFollowPages) {
  const CpuKernel kernel = load(object_, "scale");
  ThreadPool pool(3);
  for (const int64_t blocks : {1, 9, 70001}) {
    std::vector<float> x(blocks), out(blocks, -1);
    for (int64_t i = 0; i < blocks; i++) x[i] = float(i);
    float a = 3;
    void* arguments[] = {x.data(), out.data(), &a};
    // Taken for a result of 4 GiB, which no machine of less than 512 threads has too few pages for.
    run_cpu_kernel(kernel, "scale", arguments, {blocks, 1, 1}, pool, {out.data(), int64_t{4} << 30});
    for (int64_t i = 0; i < blocks; i++) ASSERT_EQ(out[i], 3 * float(i));
  }
}

TEST_F(CpuBlob, DenormalsAreKept) {
  const CpuKernel kernel = load(object_, "scale");
  const uint32_t control = numeric::KeepDenormals::control();
  numeric::KeepDenormals::set_control(control | numeric::KeepDenormals::kFlush);
  float x = 0x1p-140f, out = 0, a = 1;
  void* arguments[] = {&x, &out, &a};
  SerialExecutor executor;
  run_cpu_kernel(kernel, "scale", arguments, {1, 1, 1}, executor);
  numeric::KeepDenormals::set_control(control);
  EXPECT_EQ(out, 0x1p-140f);
}

TEST_F(CpuBlob, ConcurrentFirstUseLoadsEachObjectOnce) {
  constexpr int kObjects = 5, kThreads = 10;
  std::vector<CpuKernel> found(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; i++) threads.emplace_back([&, i] { found[i] = load(copy(1 + i % kObjects), "scale"); });
  for (std::thread& thread : threads) thread.join();
  std::sort(found.begin(), found.end());
  // Objects do not share code, though their files get the same number in turn.
  EXPECT_EQ(std::unique(found.begin(), found.end()) - found.begin(), kObjects);
}

TEST_F(CpuBlob, FailuresAreErrors) {
  EXPECT_EQ(error_of([&] { load(object_, "scales"); }),
            "blob: the shared object has no function scales (it must be extern \"C\" and visible)");
  const std::string cut = object_.substr(0, 3000);
  EXPECT_NE(error_of([&] { load(cut, "scale"); }).find("blob: a damaged ELF file"), std::string::npos);
  EXPECT_EQ(find_cpu_kernel(sha256(cut), "scale"), nullptr);
  const CpuKernel throws = load(object_, "throws");
  ThreadPool pool(2);
  EXPECT_EQ(error_of([&] { run_cpu_kernel(throws, "throws", nullptr, {8, 1, 1}, pool); }),
            "kernel throws threw: block 3 is unhappy");
  EXPECT_EQ(error_of([&] { run_cpu_kernel(throws, "throws", nullptr, {3, 1, 1}, pool); }), "");
}

}  // namespace
}  // namespace jaxator::testing
