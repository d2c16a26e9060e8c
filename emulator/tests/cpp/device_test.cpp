/// The C++ interface: memory of a device, launches, and what is refused.
#include <thread>

#include "emulator/tests/cpp/testing.h"

namespace jaxator::emulator::testing {
namespace {

constexpr int kCount = 1000;
LaunchOptions one_dimensional(uint32_t groups, uint32_t threads) {
  return {.grid = {groups}, .block = {threads}, .checks = kAllChecks, .threads = 2, .time_limit_s = 2};
}

struct Sum {
  std::vector<float> a = std::vector<float>(kCount, 1), b = std::vector<float>(kCount, 2);
  float* c = nullptr;

  explicit Sum(Device& device) {
    device.map(a.data(), kCount * sizeof(float), "a");
    device.map(b.data(), kCount * sizeof(float), "b");
    c = static_cast<float*>(device.allocate(kCount * sizeof(float), "c"));
  }
  Arguments arguments(int n = kCount) const { return Arguments().add(a.data()).add(b.data()).add(c).add(n); }
};

class EachArchitecture : public ::testing::TestWithParam<Architecture> {
 protected:
  std::shared_ptr<const CodeObject> code_ = CodeObject::open(image_path("vector_add", GetParam()));
  Device device_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(, EachArchitecture, ::testing::ValuesIn(kArchitectures),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST_P(EachArchitecture, AddsVectors) {
  const Sum sum(device_);
  EXPECT_EQ(device_.uninitialised_bytes(sum.c, 4 * kCount), size_t{4 * kCount});
  const Report report = device_.launch(*code_, "vadd", sum.arguments(), one_dimensional(4, 256));
  EXPECT_TRUE(report.clean()) << report.text();
  EXPECT_GT(report.instructions, 100u);
  EXPECT_EQ(device_.uninitialised_bytes(sum.c, 4 * kCount), 0u);
  for (int k = 0; k < kCount; k++) ASSERT_EQ(sum.c[k], 3);
}

TEST_P(EachArchitecture, DescribesKernels) {
  EXPECT_EQ(code_->architecture(), GetParam());
  ASSERT_EQ(code_->kernels().size(), 1u);
  const KernelInfo& info = code_->kernel("vadd");
  EXPECT_EQ(info.parameters.size(), 4u);
  EXPECT_EQ(info.parameters[3].offset, 24u);
  EXPECT_EQ(info.parameters[3].type, "by_value");
  EXPECT_EQ(info.max_threads, 256u);
  EXPECT_TRUE(code_->unknown_instructions("vadd").empty());
  EXPECT_NE(code_->disassembly("vadd").find("global_store_dword"), std::string::npos);
  expect_error("no kernel nothing", [&] { code_->kernel("nothing"); });
}

TEST_P(EachArchitecture, NamesTheLineOfAFinding) {
  std::vector<float> a(256), b(256);
  device_.map(a.data(), 1024, "a");
  device_.map(b.data(), 1020, "b");
  void* c = device_.allocate(1024);
  const Report report =
      device_.launch(*code_, "vadd", Arguments().add(a.data()).add(b.data()).add(c).add(256), one_dimensional(1, 256));
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_FALSE(report.completed);
  const Finding& finding = report.findings[0];
  EXPECT_EQ(finding.kind, Kind::out_of_bounds);
  EXPECT_EQ(finding.kernel, "vadd");
  EXPECT_NE(finding.source.find("vector_add.cpp:5"), std::string::npos) << finding.text();
  EXPECT_EQ(finding.wave, 3);
  EXPECT_EQ(finding.lane, 63);
  EXPECT_NE(finding.text().find("out of bounds in vadd: 4 bytes at address "), std::string::npos);
  EXPECT_NE(finding.text().find("byte 1020 of b (1020 bytes)"), std::string::npos);
}

TEST_P(EachArchitecture, WorkgroupsThatWaitForOthersEnd) {
  constexpr uint32_t kGroups = 12;
  const auto code = CodeObject::open(image_path("order", GetParam()));
  for (const unsigned checks : {0u, unsigned{kAllChecks}}) {
    std::vector<uint32_t> flags(kGroups, 0), out(kGroups, 0);
    device_.map(flags.data(), 4 * kGroups, "flags");
    device_.map(out.data(), 4 * kGroups, "out", false);
    LaunchOptions options = one_dimensional(kGroups, 64);
    options.checks = checks;
    const Arguments arguments = Arguments().add(flags.data()).add(out.data()).add(kGroups);
    const Report report = device_.launch(*code, "spin_between_groups", arguments, options);
    EXPECT_TRUE(report.clean()) << report.text();
    for (uint32_t k = 0; k < kGroups; k++) EXPECT_EQ(out[k], kGroups - k);
    device_.unmap(flags.data());
    device_.unmap(out.data());
  }
}

TEST_P(EachArchitecture, RefusesWhatDoesNotFit) {
  const Sum sum(device_);
  const auto expect_refused = [&](const std::string& part, const LaunchOptions& options, const Arguments& arguments) {
    expect_error(part, [&] { device_.launch(*code_, "vadd", arguments, options); });
  };
  expect_refused("grid.x=0: must be positive", one_dimensional(0, 256), sum.arguments());
  expect_refused("block.x=1025: must be from 1 to 1024", one_dimensional(1, 1025), sum.arguments());
  expect_refused("threads in a block=512: the kernel was compiled for at most 256", one_dimensional(1, 512), sum.arguments());
  expect_refused("argument bytes=8: the kernel takes 28", one_dimensional(1, 256), Arguments().add(sum.c));
  const auto other = CodeObject::open(
      image_path("vector_add", GetParam() == Architecture::gfx942 ? Architecture::gfx950 : Architecture::gfx942));
  expect_error("a code object for", [&] { device_.launch(*other, "vadd", sum.arguments(), one_dimensional(1, 256)); });
}

TEST(Device, MemoryMayNotOverlap) {
  Device device(Architecture::gfx942);
  std::vector<char> memory(100);
  device.map(memory.data(), 50, "first");
  device.map(memory.data() + 50, 50, "second");
  expect_error("memory third of 10 bytes overlaps second", [&] { device.map(memory.data() + 45, 10, "third"); });
  expect_error("memory third of 200 bytes overlaps", [&] { device.map(memory.data() - 50, 200, "third"); });
  expect_error("0 bytes", [&] { device.map(memory.data(), 0); });
  device.unmap(memory.data());
  device.map(memory.data() + 40, 10, "third");
  expect_error("no memory of the device begins at", [&] { device.unmap(memory.data()); });
}

TEST(Device, AllocationsAreSparse) {
  Device device(Architecture::gfx942);
  constexpr size_t kBytes = size_t{64} << 30;
  auto* bytes = static_cast<char*>(device.allocate(kBytes, "large"));
  bytes[kBytes - 1] = 1;
  device.initialise(bytes + kBytes - 1, 1);
  EXPECT_EQ(device.uninitialised_bytes(bytes + kBytes - 5, 5), 4u);
  expect_error("not within one allocation", [&] { device.uninitialised_bytes(bytes + kBytes - 5, 6); });
  expect_error("was not given by allocate", [&] { device.free(bytes + 1); });
  device.free(bytes);
  expect_error("not within one allocation", [&] { device.free(bytes); });
  expect_error("at most 2^46", [&] { device.allocate(size_t{1} << 47); });
}

TEST(Device, InitialisedMemoryIsNotReported) {
  Device device(Architecture::gfx950);
  const auto code = CodeObject::open(image_path("vector_add", Architecture::gfx950));
  const auto a = static_cast<float*>(device.allocate(1024, "a")), b = static_cast<float*>(device.allocate(1024, "b")),
             c = static_cast<float*>(device.allocate(1024, "c"));
  const Arguments arguments = Arguments().add(a).add(b).add(c).add(256);
  device.initialise(a, 1024);
  device.initialise(b, 1020);
  Report report = device.launch(*code, "vadd", arguments, one_dimensional(1, 256));
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].kind, Kind::uninitialised);
  EXPECT_EQ(report.findings[0].lane, 63);
  EXPECT_EQ(device.uninitialised_bytes(c, 1024), 4u);
  device.initialise(b, 1024);
  report = device.launch(*code, "vadd", arguments, one_dimensional(1, 256));
  EXPECT_TRUE(report.clean()) << report.text();
}

TEST(Device, ListsItsMemory) {
  Device device(Architecture::gfx950);
  std::vector<uint8_t> mapped(64);
  device.map(mapped.data(), mapped.size(), "mapped");
  void* allocated = device.allocate(100, "allocated");
  std::vector<Device::Range> ranges = device.memory();
  ASSERT_EQ(ranges.size(), 2u);
  const Device::Range& of_device = ranges[ranges[0].name == "allocated" ? 0 : 1];
  EXPECT_EQ(of_device.begin, reinterpret_cast<uint64_t>(allocated));
  EXPECT_EQ(of_device.end - of_device.begin, 100u);
  device.free(allocated);
  ASSERT_EQ(device.memory().size(), 1u);
  EXPECT_EQ(device.memory()[0].name, "mapped");
}

TEST(Device, TellsWhichPartsAreInitialised) {
  Device device(Architecture::gfx942);
  constexpr size_t kBytes = 10000;
  auto* at = static_cast<uint8_t*>(device.allocate(kBytes));
  const auto spans = [&] {
    std::vector<std::pair<uint64_t, uint64_t>> all;
    for (const Span& span : device.initialised(at, kBytes))
      all.emplace_back(span.begin - reinterpret_cast<uint64_t>(at), span.end - reinterpret_cast<uint64_t>(at));
    return all;
  };
  using Spans = std::vector<std::pair<uint64_t, uint64_t>>;
  EXPECT_EQ(spans(), Spans());
  device.initialise(at + 4, 8);
  device.initialise(at + 4000, 200);  // over the end of what is looked at at once
  device.initialise(at + 12, 1);
  EXPECT_EQ(spans(), (Spans{{4, 13}, {4000, 4200}}));
  device.initialise(at, kBytes);
  EXPECT_EQ(spans(), (Spans{{0, kBytes}}));
  expect_error("not within one allocation", [&] { device.initialised(at, kBytes + 1); });
}

TEST(Devices, RunAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> clean = 0;
  for (int k = 0; k < 4; k++) {
    threads.emplace_back([&, architecture = kArchitectures[k % 2]] {
      const auto code = CodeObject::open(image_path("vector_add", architecture));
      for (int n = 0; n < 4; n++) {
        Device device(architecture);
        const Sum sum(device);
        clean += device.launch(*code, "vadd", sum.arguments(), one_dimensional(4, 256)).clean() && sum.c[kCount - 1] == 3;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(clean, 16);
}

TEST(Devices, OneCodeObjectServesSeveralLaunches) {
  const auto code = CodeObject::open(image_path("gemm", Architecture::gfx942));
  std::vector<std::thread> threads;
  std::atomic<int> clean = 0;
  Device device(Architecture::gfx942);
  for (int k = 0; k < 3; k++) {
    threads.emplace_back([&] {
      void* memory[3];
      for (void*& at : memory) at = device.allocate(128 * 128 * 2), device.initialise(at, 128 * 128 * 2);
      const Arguments arguments = Arguments().add(memory[0]).add(memory[1]).add(memory[2]).add(128).add(128).add(64);
      clean += device.launch(*code, "gemm", arguments, one_dimensional(1, 256)).clean();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(clean, 3);
}

TEST(Arguments, AreAligned) {
  const std::span<const uint8_t> bytes = Arguments().add(uint8_t{1}).add(uint32_t{2}).add(uint16_t{3}).add(uint64_t{4});
  ASSERT_EQ(bytes.size(), 24u);
}

}  // namespace
}  // namespace jaxator::emulator::testing
