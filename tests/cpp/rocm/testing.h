/// @file
/// What tests on the emulator share: it as the driver of this machine, arrays in device memory, the test kernels.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "emulator/hip/hip.h"
#include "jaxator/emulator.h"
#include "src/runtime/rocm/launch.h"

namespace jaxator::rocm::images {
extern const Image test_kernels;
}

namespace jaxator::testing {

/// Fails the test with the name of HIP's error.
inline void expect_ok(hipError_t result) {
  EXPECT_EQ(result, hipSuccess) << hipGetErrorName(result) << "\n" << jaxator_emulator_report();
}

/// Elements in memory of a device.
template <class T> class DeviceArray {
 public:
  DeviceArray(int device, size_t count) : count_(count) {
    expect_ok(hipSetDevice(device));
    expect_ok(hipMalloc(&data_, count * sizeof(T)));
  }
  DeviceArray(int device, const std::vector<T>& values) : DeviceArray(device, values.size()) {
    expect_ok(hipMemcpy(data_, values.data(), values.size() * sizeof(T), hipMemcpyHostToDevice));
  }
  ~DeviceArray() { expect_ok(hipFree(data_)); }
  DeviceArray(const DeviceArray&) = delete;

  T* data() { return static_cast<T*>(data_); }
  std::vector<T> values() const {
    std::vector<T> host(count_);
    expect_ok(hipMemcpy(host.data(), data_, count_ * sizeof(T), hipMemcpyDeviceToHost));
    return host;
  }

 private:
  void* data_ = nullptr;
  size_t count_;
};

/// The run time finds the emulator where it looks for libamdhip64. Device 0 is a gfx942, device 1 a gfx950.
class Rocm : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    static const bool used = [] {
      rocm::use_driver(JAXATOR_HIP_EMULATOR);
      return true;
    }();
    ASSERT_TRUE(used);
    ASSERT_EQ(rocm_problem(), "");
  }
  void SetUp() override { configure(); }
  void TearDown() override { configure(); }

  static void configure(unsigned checks = emulator::kWaits | emulator::kRaces | emulator::kPoison, uint64_t seed = 0) {
    constexpr double kTimeLimit_s = 2;
    jaxator_emulator_configure(checks, seed, /*threads=*/2, kTimeLimit_s);
  }

  static RocmStream launching(int device) { return {.device = device, .architecture = rocm_device_architecture(device)}; }
  static RocmStream prepared(int device) {
    RocmStream stream = launching(device);
    stream.prepare_only = true;
    return stream;
  }
};

constexpr int kDevices[] = {0, 1};

/// What the kernel `scale` takes beside the array and the factor.
struct Part {
  int64_t begin, end;
};

/// The text of what body throws; "" if nothing.
template <class Body> std::string error_of(Body&& body) {
  try {
    body();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace jaxator::testing
