#include <barrier>
#include <thread>

#include "src/runtime/cuda/launch.h"
#include "src/runtime/cuda/tensor_map.h"
#include "tests/cpp/cuda_testing.h"

namespace jaxator::testing {
namespace {

using cuda::Geometry;
using cuda::Kernel;

constexpr const char* kText = R"(
.version 8.0
.target sm_90a
.visible .entry scale(
    .param .u64 .ptr .align 1 scale_param_0,  // the array, in place
    .param .f32 scale_param_1,
    .param .align 8 .b8 scale_param_2[24]
)
.maxntid 256, 2
.minnctapersm 1   // @scale
{ ret; }
.visible .entry nothing() { ret; }
.visible .entry pair(.param .u64 a)
.reqnctapercluster 2, 1, 1
{ ret; }
)";

struct Sizes {
  int64_t rows, columns, stride;
};

const Sizes kSizes{1, 2, 3};

class CudaModule : public StubCuda {};
class CudaLaunch : public StubCuda {};
class CudaTensorMap : public StubCuda {};

// ---- modules ---------------------------------------------------------------------------------------------------------------

TEST_F(CudaModule, ConcurrentFirstUseLoadsOnceForEachDevice) {
  const Kernel kernel(image_of("concurrent", kText), "scale");
  constexpr int kThreads = 12, kDevices = 3;
  std::barrier gate(kThreads);
  std::vector<cuda::Function*> found(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; i++)
    threads.emplace_back([&, i] {
      gate.arrive_and_wait();
      // Ordinals on both sides of what a kernel caches itself.
      found[i] = &kernel.on(62 + i % kDevices, true);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(stub_record().loads.size(), kDevices);
  EXPECT_EQ(stub_record().lookups.size(), kDevices);
  for (int i = 0; i < kThreads; i++) EXPECT_EQ(found[i], found[i % kDevices]);
  EXPECT_NE(found[0], found[1]);
  for (int i = 0; i < kDevices; i++) EXPECT_EQ(&kernel.on(62 + i, false), found[i]);
  EXPECT_EQ(found[0]->max_threads, 512);
  EXPECT_EQ(found[0]->parameter_bytes, (std::vector<int>{8, 4, 24}));
}

TEST_F(CudaModule, KernelsOfAnImageShareAModule) {
  const cuda::Image& image = image_of("shared", kText);
  const Kernel scale(image, "scale"), nothing(image, "nothing");
  scale.on(0, true), nothing.on(0, true);
  EXPECT_EQ(stub_record().loads.size(), 1u);
  EXPECT_EQ(stub_record().lookups, (std::vector<std::string>{"scale", "nothing"}));
  EXPECT_EQ(nothing.on(0, false).parameter_bytes, std::vector<int>{});
  EXPECT_EQ(nothing.on(0, false).max_threads, 1024);
}

TEST_F(CudaModule, RefusedCubinTakesThePtx) {
  const Kernel kernel(image_of("two forms", kText,
                               "\x7f"
                               "ELF of a newer assembler"),
                      "scale");
  kernel.on(0, true);
  const std::vector<StubLoad> loads = stub_record().loads;
  ASSERT_EQ(loads.size(), 2u);
  EXPECT_EQ(loads[0].image, "cubin");
  EXPECT_EQ(loads[0].result, kStubNoBinary);
  EXPECT_EQ(loads[1].image, kText);
  EXPECT_EQ(loads[1].result, 0);
}

TEST_F(CudaModule, ErrorsCarryTheDriversTextAndLog) {
  const Kernel kernel(image_of("broken", kText), "scale");
  stub_fail("cuModuleLoadDataEx", kStubInvalidPtx, 1, "ptxas application ptx input, line 7; error: Unknown symbol");
  EXPECT_EQ(error_of([&] { kernel.on(0, true); }),
            "loading the kernels broken: CUDA_ERROR_INVALID_PTX (the stub's text)\n"
            "ptxas application ptx input, line 7; error: Unknown symbol");
  EXPECT_THROW(kernel.on(0, false), CudaError);
  kernel.on(0, true);  // what failed is tried again
  EXPECT_EQ(stub_record().loads.size(), 2u);

  const Kernel missing(image_of("broken", kText), "scales");
  EXPECT_EQ(error_of([&] { missing.on(0, true); }),
            "looking for kernel scales in the kernels broken: CUDA_ERROR_NOT_FOUND (the stub's text)");
  const Kernel unreadable(image_of("broken", kText), "nothing");
  stub_fail("cuFuncGetAttribute", kStubInvalidValue);
  EXPECT_EQ(error_of([&] { unreadable.on(0, true); }),
            "reading attributes of kernel nothing: CUDA_ERROR_INVALID_VALUE (the stub's text)");
  EXPECT_THROW(unreadable.on(0, false), CudaError);
  unreadable.on(0, true);
  const Kernel empty(image_of("no forms", ""), "scale");
  EXPECT_THROW(empty.on(0, true), UnsupportedError);
}

TEST_F(CudaModule, BlobsFromOutsideAreFoundByHash) {
  EXPECT_EQ(cuda::find_function("h1", "scale", 0), nullptr);
  cuda::Function& function = cuda::load_function("h1", kText, "scale", 0);
  EXPECT_EQ(&cuda::load_function("h1", kText, "scale", 0), &function);
  EXPECT_EQ(cuda::find_function("h1", "scale", 0), &function);
  EXPECT_EQ(cuda::find_function("h1", "scale", 1), nullptr);
  EXPECT_EQ(cuda::find_function("h1", "nothing", 0), nullptr);
  EXPECT_EQ(cuda::find_function("h2", "scale", 0), nullptr);
  EXPECT_NE(&cuda::load_function("h2", kText, "scale", 0), &function);
  EXPECT_EQ(stub_record().loads.size(), 2u);
  EXPECT_EQ(error_of([] { cuda::load_function("h3", "not PTX", "scale", 0); }),
            "loading the blob: CUDA_ERROR_INVALID_IMAGE (the stub's text)");
  EXPECT_EQ(error_of([] { cuda::load_function("h1", kText, "sale", 0); }),
            "looking for kernel sale in the blob: CUDA_ERROR_NOT_FOUND (the stub's text)");
}

TEST_F(CudaModule, DevicesAreDescribed) {
  const std::vector<CudaDevice> devices = cuda_devices();
  ASSERT_EQ(devices.size(), size_t{kStubDevices});
  EXPECT_EQ(devices[1].name, "stub of an H200");
  EXPECT_EQ(devices[1].major, 9);
  EXPECT_EQ(devices[1].minor, 0);
  EXPECT_EQ(devices[1].multiprocessors, kStubMultiprocessors);
}

// ---- launches --------------------------------------------------------------------------------------------------------------

TEST_F(CudaLaunch, PreparesWithoutLaunchingAndLaunchesWhatWasPrepared) {
  const Kernel kernel(image_of("launch", kText), "scale");
  const int device = fresh_device();
  const Geometry geometry{.grid = {8, 3, 2}, .block = {64, 2, 1}, .shared_bytes = 1000, .cluster = {4, 1, 2}};
  float array = 0;
  float* address = &array;
  EXPECT_EQ(error_of([&] { cuda::launch(kernel, geometry, launching(device), address, 2.5f, kSizes); }),
            "kernel scale is not loaded on device " + std::to_string(device) + ": it was not prepared");
  for (int i = 0; i < 2; i++) cuda::launch(kernel, geometry, prepared(device), address, 2.5f, kSizes);
  EXPECT_EQ(stub_record().launches.size(), 0u);
  EXPECT_EQ(stub_record().loads.size(), 1u);
  cuda::launch(kernel, geometry, launching(device), address, 2.5f, kSizes);
  ASSERT_EQ(stub_record().launches.size(), 1u);
  const StubLaunch launch = stub_record().launches[0];
  EXPECT_EQ(launch.entry, "scale");
  EXPECT_EQ(launch.grid, (std::array<unsigned, 3>{8, 3, 2}));
  EXPECT_EQ(launch.block, (std::array<unsigned, 3>{64, 2, 1}));
  EXPECT_EQ(launch.cluster, (std::array<unsigned, 3>{4, 1, 2}));
  EXPECT_EQ(launch.shared_bytes, 1000u);
  EXPECT_EQ(launch.stream, stream());
  EXPECT_EQ(launch.argument<float*>(0), address);
  EXPECT_EQ(launch.argument<float>(1), 2.5f);
  EXPECT_EQ(launch.argument<Sizes>(2).stride, 3);
}

TEST_F(CudaLaunch, SharedMemoryIsOnlyRaised) {
  const Kernel kernel(image_of("shared memory", kText), "nothing"), other(image_of("shared memory", kText), "scale");
  const int device = fresh_device();
  cuda::Function& function = kernel.on(device, true);
  for (int bytes : {0, 1000, 500, 232448, 1000, 0}) cuda::prepare(function, "nothing", {.shared_bytes = bytes}, {}, device);
  std::vector<int> set;
  for (const StubAttribute& attribute : stub_record().attributes) {
    EXPECT_EQ(attribute.entry, "nothing");
    EXPECT_EQ(attribute.attribute, cuda::kMaxDynamicSharedBytes);
    set.push_back(attribute.value);
  }
  EXPECT_EQ(set, (std::vector<int>{1000, 232448}));
  EXPECT_EQ(error_of([&] { cuda::prepare(function, "nothing", {.shared_bytes = 232449}, {}, device); }),
            "kernel nothing: shared_bytes=232449: must be at most 232448");
  EXPECT_EQ(error_of([&] { cuda::prepare(function, "nothing", {.shared_bytes = -1}, {}, device); }),
            "kernel nothing: shared_bytes=-1: must not be negative");
  // Static shared memory may leave less than the device has.
  stub_fail("cuFuncSetAttribute", kStubInvalidValue);
  EXPECT_EQ(error_of([&] { cuda::launch(other, {.shared_bytes = 200000}, prepared(device), &device, 0.0f, kSizes); }),
            "200000 bytes of shared memory for kernel scale: CUDA_ERROR_INVALID_VALUE (the stub's text)");
}

TEST_F(CudaLaunch, ThreadsThatPrepareTogetherNeverLowerSharedMemory) {
  const Kernel kernel(image_of("shared by threads", kText), "nothing");
  const int device = fresh_device();
  cuda::Function& function = kernel.on(device, true);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; i++)
    threads.emplace_back([&, i] {
      for (int bytes = 1000 + i; bytes < 9000; bytes += 100)
        cuda::prepare(function, "nothing", {.shared_bytes = bytes}, {}, device);
    });
  for (std::thread& thread : threads) thread.join();
  int last = 0;
  for (const StubAttribute& attribute : stub_record().attributes) {
    EXPECT_GT(attribute.value, last);
    last = attribute.value;
  }
  EXPECT_EQ(last, 8907);
}

TEST_F(CudaLaunch, EveryLimitIsNamed) {
  const Kernel kernel(image_of("limits", kText), "nothing"), scale(image_of("limits", kText), "scale");
  const int device = fresh_device();
  cuda::Function& function = kernel.on(device, true);
  const auto refused = [&](const Geometry& g) { return error_of([&] { cuda::prepare(function, "nothing", g, {}, device); }); };
  const std::string k = "kernel nothing: ";
  EXPECT_EQ(refused({.grid = {0, 1, 1}}), k + "grid.x=0: must be positive");
  EXPECT_EQ(refused({.grid = {1, -2, 1}}), k + "grid.y=-2: must be positive");
  EXPECT_EQ(refused({.grid = {int64_t{1} << 31, 1, 1}}), k + "grid.x=2147483648: must be at most 2147483647");
  EXPECT_EQ(refused({.grid = {1, 65536, 1}}), k + "grid.y=65536: must be at most 65535");
  EXPECT_EQ(refused({.grid = {1, 1, 65536}}), k + "grid.z=65536: must be at most 65535");
  EXPECT_EQ(refused({.block = {1, 1, 0}}), k + "block.z=0: must be positive");
  EXPECT_EQ(refused({.block = {1, 1, 65}}), k + "block.z=65: must be at most 64");
  EXPECT_EQ(refused({.block = {1025, 1, 1}}), k + "block.x=1025: must be at most 1024");
  EXPECT_EQ(refused({.block = {32, 33, 1}}), k + "threads in a block=1056: must be at most 1024");
  EXPECT_EQ(refused({.cluster = {0, 1, 1}}), k + "cluster.x=0: must be positive");
  EXPECT_EQ(refused({.grid = {16, 1, 1}, .cluster = {16, 1, 1}}), k + "cluster.x=16: must be at most 8");
  EXPECT_EQ(refused({.grid = {4, 4, 1}, .cluster = {4, 4, 1}}), k + "blocks in a cluster=16: must be at most 8");
  EXPECT_EQ(refused({.grid = {6, 1, 1}, .cluster = {4, 1, 1}}), k + "grid.x=6: must be a multiple of the cluster's 4");
  EXPECT_EQ(refused({.grid = {2147483647, 65535, 65535}, .block = {1024, 1, 1}}), "");
  // Of the kernel itself: its launch bounds.
  EXPECT_EQ(error_of([&] { cuda::launch(scale, {.block = {513, 1, 1}}, prepared(device), &device, 0.0f, kSizes); }),
            "kernel scale: threads in a block=513: must be at most 512");
}

TEST_F(CudaLaunch, ArgumentsMustBeWhatTheKernelTakes) {
  const Kernel kernel(image_of("arguments", kText), "scale");
  const int device = fresh_device();
  EXPECT_EQ(error_of([&] { cuda::launch(kernel, {}, prepared(device), &device, 1.0f); }),
            "kernel scale: arguments=2: the kernel takes 3");
  EXPECT_EQ(error_of([&] { cuda::launch(kernel, {}, prepared(device), &device, 1.0, kSizes); }),
            "kernel scale: bytes of argument 1=8: the kernel takes 4");
  EXPECT_EQ(error_of([&] { cuda::launch(kernel, {}, prepared(device), &device, 1.0f, kSizes); }), "");
}

TEST_F(CudaLaunch, AKernelCompiledForAClusterKeepsIt) {
  const Kernel kernel(image_of("cluster", kText), "pair");
  const int device = fresh_device();
  const auto refused = [&](const Geometry& g) { return error_of([&] { cuda::launch(kernel, g, prepared(device), &device); }); };
  EXPECT_EQ(refused({.grid = {4, 1, 1}}), "");
  EXPECT_EQ(refused({.grid = {4, 1, 1}, .cluster = {2, 1, 1}}), "");
  EXPECT_EQ(refused({.grid = {4, 1, 1}, .cluster = {4, 1, 1}}),
            "kernel pair: cluster.x=4: the kernel was compiled for a cluster of 2 there");
  EXPECT_EQ(refused({.grid = {3, 1, 1}}),
            "kernel pair: grid.x=3: the kernel was compiled for a cluster of 2 and takes multiples of it");
}

TEST_F(CudaLaunch, AFailedLaunchIsAnError) {
  const Kernel kernel(image_of("failing", kText), "nothing");
  const int device = fresh_device();
  cuda::Function& function = kernel.on(device, true);
  stub_fail("cuLaunchKernelEx", kStubInvalidValue);
  EXPECT_EQ(error_of([&] { cuda::launch(function, "nothing", {}, launching(device), {}); }),
            "launching kernel nothing: CUDA_ERROR_INVALID_VALUE (the stub's text)");
}

// ---- tensor maps -----------------------------------------------------------------------------------------------------------

TEST_F(CudaTensorMap, FieldsAreThoseOfTheArray) {
  alignas(16) char array[16] = {};
  cuda::tensor_map("a", DType::bf16, array,
                   {{.size = 64, .stride_bytes = 0, .box = 64}, {.size = 1000, .stride_bytes = 128, .box = 256}});
  cuda::tensor_map("b", DType::f32, array, {{.size = 8, .stride_bytes = 7, .box = 8}}, cuda::MapSwizzle::none);
  cuda::tensor_map("c", DType::f16, array,
                   {{.size = 32, .stride_bytes = 0, .box = 32},
                    {.size = 3, .stride_bytes = 64, .box = 1},
                    {.size = 5, .stride_bytes = 192, .box = 2}},
                   cuda::MapSwizzle::bytes64);
  const std::vector<StubTensorMap> maps = stub_record().maps;
  ASSERT_EQ(maps.size(), 3u);
  constexpr int kFloat16 = 6, kFloat32 = 7, kBfloat16 = 9;  // of the driver
  EXPECT_EQ(maps[0].type, kBfloat16);
  EXPECT_EQ(maps[0].address, array);
  EXPECT_EQ(maps[0].sizes, (std::vector<uint64_t>{64, 1000}));
  EXPECT_EQ(maps[0].strides, (std::vector<uint64_t>{128}));
  EXPECT_EQ(maps[0].box, (std::vector<unsigned>{64, 256}));
  EXPECT_EQ(maps[0].steps, (std::vector<unsigned>{1, 1}));
  EXPECT_EQ(maps[0].interleave, 0);
  EXPECT_EQ(maps[0].swizzle, 3);
  EXPECT_EQ(maps[0].fill, 0);
  EXPECT_EQ(maps[1].type, kFloat32);
  EXPECT_EQ(maps[1].strides, std::vector<uint64_t>{});
  EXPECT_EQ(maps[1].swizzle, 0);
  EXPECT_EQ(maps[2].type, kFloat16);
  EXPECT_EQ(maps[2].strides, (std::vector<uint64_t>{64, 192}));
  EXPECT_EQ(maps[2].swizzle, 2);
}

TEST_F(CudaTensorMap, BadOnesAreNamed) {
  alignas(16) char array[32] = {};
  EXPECT_EQ(error_of([&] { cuda::tensor_map("k", DType::bf16, array + 8, {{.size = 8, .stride_bytes = 0, .box = 8}}); }),
            "k is at an address that is no multiple of 16");
  EXPECT_EQ(error_of([&] {
              cuda::tensor_map("k", DType::bf16, array,
                               {{.size = 5, .stride_bytes = 0, .box = 5}, {.size = 2, .stride_bytes = 10, .box = 1}});
            }),
            "k: stride of 10 bytes: must be a multiple of 16");
  const cuda::MapDimension one{.size = 16, .stride_bytes = 16, .box = 1};
  EXPECT_EQ(error_of([&] { cuda::tensor_map("k", DType::bf16, array, {one, one, one, one, one, one}); }),
            "k has 6 dimensions: must have at most 5");
  for (cuda::MapDimension bad :
       {cuda::MapDimension{.size = 0, .stride_bytes = 0, .box = 8}, {.size = 512, .stride_bytes = 0, .box = 257}})
    EXPECT_EQ(error_of([&] { cuda::tensor_map("k", DType::bf16, array, {bad}); }),
              "encoding the tensor map of k: CUDA_ERROR_INVALID_VALUE (the stub's text)");
}

}  // namespace
}  // namespace jaxator::testing
