/// The ROCm run time, with the emulator where it looks for libamdhip64.
#include <barrier>
#include <thread>

#include "tests/cpp/rocm/testing.h"

namespace jaxator::testing {
namespace {

using rocm::Geometry;
using rocm::Kernel;
using rocm::images::test_kernels;

class RocmModule : public Rocm {};
class RocmLaunch : public Rocm {};

std::string blob_of(int device) {
  const rocm::Image::Code& code = test_kernels.code[device];
  return std::string(code.begin, code.end);
}

TEST_F(RocmModule, DevicesAreDescribed) {
  const std::vector<RocmDevice> devices = rocm_devices();
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].architecture, "gfx942");
  EXPECT_EQ(devices[1].architecture, "gfx950");
  EXPECT_EQ(devices[0].compute_units, 304);
  EXPECT_EQ(rocm_device_architecture(0), RocmArchitecture::gfx942);
  EXPECT_EQ(rocm_device_architecture(1), RocmArchitecture::gfx950);
  EXPECT_EQ(rocm_device_architecture(1), RocmArchitecture::gfx950);
  EXPECT_THROW(rocm_device_architecture(2), RocmError);
  EXPECT_EQ(error_of([] { rocm_architecture("gfx90a:sramecc+"); }),
            "architecture=gfx90a: this build has kernels for gfx942, gfx950");
  EXPECT_EQ(error_of([] { rocm_architecture(""); }), "architecture=: this build has kernels for gfx942, gfx950");
}

TEST_F(RocmModule, ConcurrentFirstUseLoadsOnceForEachDevice) {
  const Kernel kernel(test_kernels, "scale");
  constexpr int kThreads = 8;
  std::barrier gate(kThreads);
  std::vector<const rocm::Function*> found(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; i++)
    threads.emplace_back([&, i] {
      gate.arrive_and_wait();
      found[i] = &kernel.on(prepared(i % 2));
    });
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < kThreads; i++) EXPECT_EQ(found[i], found[i % 2]);
  EXPECT_NE(found[0], found[1]);
  for (int device : kDevices) EXPECT_EQ(&kernel.on(launching(device)), found[device]);
  EXPECT_EQ(found[0]->max_threads, 256);
  EXPECT_EQ(Kernel(test_kernels, "race").on(prepared(0)).shared_bytes, 1024);
}

TEST_F(RocmModule, TheThreadsDeviceIsKept) {
  expect_ok(hipSetDevice(1));
  Kernel(test_kernels, "reverse").on(prepared(0));
  rocm::launch(Kernel(test_kernels, "nothing"), {}, prepared(0));
  rocm::launch(Kernel(test_kernels, "nothing"), {}, launching(0));
  int device = -1;
  expect_ok(hipGetDevice(&device));
  EXPECT_EQ(device, 1);
}

TEST_F(RocmModule, ErrorsCarryHipsTextAndTheReport) {
  EXPECT_EQ(error_of([] { Kernel(test_kernels, "past_the_end").on(launching(0)); }),
            "kernel past_the_end is not loaded on device 0: it was not prepared");
  const std::string missing = error_of([] { Kernel(test_kernels, "scales").on(prepared(0)); });
  EXPECT_EQ(missing.find("looking for kernel scales in the kernels test_kernels for gfx942: hipErrorNotFound (named symbol not "
                         "found)\n"),
            0u)
      << missing;
  RocmStream wrong = prepared(0);
  wrong.device = 7;
  EXPECT_EQ(error_of([&] { Kernel(test_kernels, "scale").on(wrong); }),
            "hipSetDevice(7): hipErrorInvalidDevice (invalid device ordinal)\ndevice=7: must be from 0 to 1");
}

TEST_F(RocmModule, BlobsFromOutsideAreFoundByHash) {
  EXPECT_EQ(rocm::find_function("h1", "scale", launching(0)), nullptr);
  const rocm::Function& function = rocm::load_function("h1", blob_of(0), "scale", prepared(0));
  EXPECT_EQ(&rocm::load_function("h1", blob_of(0), "scale", prepared(0)), &function);
  EXPECT_EQ(rocm::find_function("h1", "scale", launching(0)), &function);
  EXPECT_EQ(rocm::find_function("h1", "scale", launching(1)), nullptr);
  EXPECT_EQ(rocm::find_function("h1", "nothing", launching(0)), nullptr);
  EXPECT_EQ(error_of([&] { rocm::load_function("h1", blob_of(0), "scale", prepared(1)); }),
            "loading the blob: hipErrorNoBinaryForGpu (no kernel image is available for execution on the device)\n"
            "the code object is for gfx942, device 1 is a gfx950");
  EXPECT_EQ(error_of([&] { rocm::load_function("h2", std::string(64, 'x'), "scale", prepared(0)); }),
            "loading the blob: hipErrorInvalidImage (device kernel image is invalid)\nthe image is no 64-bit ELF file");
  EXPECT_THROW(rocm::load_function("h3", "", "scale", prepared(0)), UnsupportedError);
}

TEST_F(RocmLaunch, PreparesWithoutLaunchingAndLaunchesWhatWasPrepared) {
  const Kernel kernel(test_kernels, "scale");
  for (int device : kDevices) {
    DeviceArray<float> array(device, std::vector<float>(600, 2));
    const Geometry geometry{.grid = {3, 1, 1}, .block = {200, 1, 1}};
    rocm::launch(kernel, geometry, prepared(device), array.data(), 4.0f, Part{0, 600});
    EXPECT_EQ(array.values(), std::vector<float>(600, 2));
    rocm::launch(kernel, geometry, launching(device), array.data(), 4.0f, Part{0, 600});
    EXPECT_EQ(array.values(), std::vector<float>(600, 8));
  }
}

TEST_F(RocmLaunch, DynamicSharedMemoryLiesBesideTheStatic) {
  const Kernel kernel(test_kernels, "reverse");
  std::vector<float> values(256);
  for (int i = 0; i < 256; i++) values[i] = static_cast<float>(i);
  for (int device : kDevices) {
    DeviceArray<float> array(device, values);
    const Geometry geometry{.block = {256, 1, 1}, .shared_bytes = 1024};
    rocm::launch(kernel, geometry, prepared(device), array.data());
    rocm::launch(kernel, geometry, launching(device), array.data());
    EXPECT_EQ(array.values(), std::vector<float>(values.rbegin(), values.rend()));
  }
}

TEST_F(RocmLaunch, EveryLimitIsNamed) {
  const rocm::Function& function = Kernel(test_kernels, "nothing").on(prepared(0));
  const auto refused = [&](const Geometry& g) {
    return error_of([&] { rocm::prepare(function, "nothing", g, RocmArchitecture::gfx942); });
  };
  const std::string k = "kernel nothing: ";
  EXPECT_EQ(refused({.grid = {0, 1, 1}}), k + "grid.x=0: must be positive");
  EXPECT_EQ(refused({.grid = {1, -2, 1}}), k + "grid.y=-2: must be positive");
  EXPECT_EQ(refused({.block = {1, 1, 0}}), k + "block.z=0: must be positive");
  EXPECT_EQ(refused({.block = {1, 1025, 1}}), k + "block.y=1025: must be at most 1024");
  EXPECT_EQ(refused({.block = {32, 33, 1}}), k + "threads in a block=1056: must be at most 1024");
  EXPECT_EQ(refused({.grid = {1 << 24, 1, 1}, .block = {256, 1, 1}}), k + "grid.x=16777216: must be at most 16777215");
  EXPECT_EQ(refused({.grid = {(1 << 24) - 1, 1, 1}, .block = {256, 1, 1}}), "");
  EXPECT_EQ(refused({.grid = {1, 1, int64_t{1} << 32}}), k + "grid.z=4294967296: must be at most 4294967295");
  EXPECT_EQ(refused({.shared_bytes = -1}), k + "shared_bytes=-1: must not be negative");
  EXPECT_EQ(refused({.shared_bytes = 65537}), k + "shared_bytes=65537: must be at most 65536");
  EXPECT_EQ(error_of([&] { rocm::prepare(function, "nothing", {.shared_bytes = 163840}, RocmArchitecture::gfx950); }), "");
  // Of the kernel itself: its launch bounds and its static LDS.
  const rocm::Function& race = Kernel(test_kernels, "race").on(prepared(0));
  const auto limited = [&](const Geometry& g) {
    return error_of([&] { rocm::prepare(race, "race", g, RocmArchitecture::gfx942); });
  };
  EXPECT_EQ(limited({.block = {257, 1, 1}}), "kernel race: threads in a block=257: must be at most 256");
  EXPECT_EQ(limited({.shared_bytes = 64513}), "kernel race: shared_bytes=64513: must be at most 64512");
}

TEST_F(RocmLaunch, AFindingIsAnErrorWithItsText) {
  const Kernel kernel(test_kernels, "past_the_end");
  DeviceArray<float> array(1, std::vector<float>(64, 0));
  rocm::launch(kernel, {.block = {64, 1, 1}}, prepared(1), array.data(), 64u);
  const std::string text = error_of([&] { rocm::launch(kernel, {.block = {64, 1, 1}}, launching(1), array.data(), 64u); });
  EXPECT_EQ(text.find("launching kernel past_the_end: hipErrorLaunchFailure (unspecified launch failure)\n"), 0u) << text;
  EXPECT_NE(text.find("kernels.cpp:"), std::string::npos) << text;
}

TEST_F(RocmLaunch, ThreadsAndDevicesAtOnce) {
  const Kernel kernel(test_kernels, "scale");
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; i++)
    threads.emplace_back([&, i] {
      const int device = i % 2;
      DeviceArray<float> array(device, std::vector<float>(500, 1));
      for (int turn = 0; turn < 5; turn++)
        for (const RocmStream& stream : {prepared(device), launching(device)})
          rocm::launch(kernel, {.grid = {2, 1, 1}, .block = {250, 1, 1}}, stream, array.data(), 2.0f, Part{0, 500});
      EXPECT_EQ(array.values(), std::vector<float>(500, 32));
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(RocmDriver, WhatIsMissingIsNamed) {
  EXPECT_EQ(rocm_problem(true), "") << "the emulator is beside the library";
  EXPECT_EQ(rocm_devices(true).size(), 2u);
  rocm::use_driver("libm.so.6");
  EXPECT_EQ(rocm_problem().find("libm.so.6 lacks hipGetErrorName; "), 0u);
  EXPECT_TRUE(rocm_devices().empty());
  EXPECT_EQ(
      error_of([] { Kernel(test_kernels, "scale").on({.prepare_only = true}); }).find("HIP cannot be used: libm.so.6 lacks"), 0u);
  rocm::use_driver("/nonexistent/libamdhip64.so");
  EXPECT_NE(rocm_problem().find("/nonexistent/libamdhip64.so"), std::string::npos);
  rocm::use_driver(JAXATOR_HIP_EMULATOR);
  EXPECT_EQ(rocm_problem(), "");
}

}  // namespace
}  // namespace jaxator::testing
