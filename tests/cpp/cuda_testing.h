/// @file
/// What tests of the CUDA run time share: the stub as the driver, devices nobody used, images made of text.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <string>

#include "src/runtime/cuda/driver.h"
#include "src/runtime/cuda/module.h"
#include "tests/cpp/stub_cuda.h"

namespace jaxator::testing {

/// Every test of the fixture starts with an empty record.
class StubCuda : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    static const bool used = [] {
      cuda::use_driver(JAXATOR_STUB_CUDA);
      return true;
    }();
    ASSERT_TRUE(used);
    ASSERT_EQ(cuda_problem(), "");
  }
  void SetUp() override { stub_reset(); }
  void TearDown() override { stub_reset(); }

  /// A device for which nothing was loaded: modules stay loaded for the life of the process.
  static int fresh_device() {
    static std::atomic<int> next{8};
    return next++;
  }

  static CudaStream prepared(int device) { return {.handle = stream(), .device = device, .prepare_only = true}; }
  static CudaStream launching(int device) { return {.handle = stream(), .device = device}; }
  static void* stream() { return reinterpret_cast<void*>(0x5717ea); }
};

/// Lives as long as the process, as an embedded image does; the name is its hash.
inline const cuda::Image& image_of(const std::string& name, const std::string& ptx, const std::string& cubin = "") {
  struct Held {
    const std::string name, ptx, cubin;
    const cuda::Image image{name.c_str(), name.c_str(), begin(ptx), end(ptx), begin(cubin), end(cubin)};

    Held(const std::string& name, const std::string& ptx, const std::string& cubin) : name(name), ptx(ptx), cubin(cubin) {}
    static const char* begin(const std::string& text) { return text.data(); }
    static const char* end(const std::string& text) { return text.data() + text.size(); }
  };
  static std::deque<Held> held;  // elements do not move
  return held.emplace_back(name, ptx, cubin).image;
}

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
