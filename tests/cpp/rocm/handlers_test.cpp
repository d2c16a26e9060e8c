/// The FFI handlers of libjaxator_xla.so for platform ROCM, called as XLA calls them, with the emulator where the run time looks
/// for libamdhip64; and the handlers that run the same kernels in programs for CPUs.
#include <dlfcn.h>

#include "jaxator/rms_norm.h"
#include "tests/cpp/fake_xla.h"
#include "tests/cpp/rocm/testing.h"

namespace jaxator::testing {
namespace {

XLA_FFI_Handler* handler(const std::string& name) {
  static void* library = dlopen(JAXATOR_XLA_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  auto* found = reinterpret_cast<XLA_FFI_Handler*>(dlsym(library, ("jaxator_" + name).c_str()));
  if (found == nullptr) throw std::runtime_error(name + " is not exported");
  return found;
}

constexpr int64_t kRows = 3, kColumns = 16;

FakeCall forward(const float* x, const float* weight, float* y) {
  FakeCall call;
  call.attributes["version"] = int64_t{1};
  call.attributes["epsilon"] = 0.0f;
  call.attributes["has_residual"] = false;
  call.attributes["has_weight"] = true;
  call.operand(XLA_FFI_DataType_F32, {kRows, kColumns}, x);
  call.operand(XLA_FFI_DataType_F32, {kColumns}, weight);
  call.result(XLA_FFI_DataType_F32, {kRows, kColumns}, y);
  return call;
}

void expect_success(const FakeResult& result) { EXPECT_EQ(result.code, 0) << result.message; }

class RocmHandlers : public Rocm {};

TEST_F(RocmHandlers, OnlyExecuteIsDeclaredCapturable) {
  for (const std::string name : {"rms_norm_forward", "rms_norm_backward", "layer_norm_forward", "layer_norm_backward",
                                 "swiglu_forward", "swiglu_backward", "rope"}) {
    EXPECT_EQ(FakeCall::traits(handler(name + "_rocm")), XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE);
    EXPECT_EQ(FakeCall::traits(handler(name + "_rocm_initialize")), 0u);
    EXPECT_EQ(FakeCall::traits(handler(name + "_emulated")), 0u);
  }
}

TEST_F(RocmHandlers, InitializeLoadsAndExecuteLaunchesOnTheStreamsDevice) {
  for (int device : kDevices) {
    DeviceArray<float> x(device, std::vector<float>(kRows * kColumns, 4)), weight(device, std::vector<float>(kColumns, 3));
    DeviceArray<float> y(device, kRows * kColumns);
    FakeCall call = forward(x.data(), weight.data(), y.data());
    hipStream_t stream = nullptr;
    expect_ok(hipSetDevice(device));
    expect_ok(hipStreamCreate(&stream));
    call.context.stream = stream;
    call.context.device = device;
    expect_ok(hipSetDevice(1 - device));
    expect_success(call.run(handler("rms_norm_forward_instantiate"), XLA_FFI_ExecutionStage_INSTANTIATE));
    if (device == 0) {
      const FakeResult early = call.run(handler("rms_norm_forward_rocm"), XLA_FFI_ExecutionStage_EXECUTE);
      EXPECT_EQ(early.code, XLA_FFI_Error_Code_INTERNAL);
      EXPECT_NE(early.message.find("it was not prepared"), std::string::npos) << early.message;
    }
    expect_success(call.run(handler("rms_norm_forward_rocm_initialize"), XLA_FFI_ExecutionStage_INITIALIZE));
    expect_success(call.run(handler("rms_norm_forward_rocm"), XLA_FFI_ExecutionStage_EXECUTE));
    EXPECT_EQ(y.values(), std::vector<float>(kRows * kColumns, 3));
    expect_ok(hipStreamDestroy(stream));
  }
}

class EmulatedHandlers : public ::testing::Test {
 protected:
  FakeResult run(const std::string& architecture) {
    FakeCall call = forward(x, weight, y);
    if (!architecture.empty()) call.attributes["architecture"] = architecture;
    return call.run(handler("rms_norm_forward_emulated"), XLA_FFI_ExecutionStage_EXECUTE);
  }

  alignas(64) float x[kRows * kColumns] = {};
  alignas(64) float weight[kColumns] = {};
  alignas(64) float y[kRows * kColumns] = {};
};

TEST_F(EmulatedHandlers, RunOverArraysOfTheHost) {
  std::fill(std::begin(x), std::end(x), -2.0f);
  std::fill(std::begin(weight), std::end(weight), 5.0f);
  for (const char* architecture : {"gfx942", "gfx950"}) {
    std::fill(std::begin(y), std::end(y), 0.0f);
    expect_success(run(architecture));
    for (float value : y) EXPECT_EQ(value, -5.0f);
  }
}

TEST_F(EmulatedHandlers, OverlappingArraysBecomeOne) {
  // In place, as XLA runs an aliased call.
  std::fill(std::begin(x), std::end(x), 2.0f);
  std::fill(std::begin(weight), std::end(weight), 5.0f);
  FakeCall call = forward(x, weight, x);
  call.attributes["architecture"] = std::string("gfx950");
  expect_success(call.run(handler("rms_norm_forward_emulated"), XLA_FFI_ExecutionStage_EXECUTE));
  for (float value : x) EXPECT_EQ(value, 5.0f);
}

TEST_F(EmulatedHandlers, AnUnknownArchitectureIsRefused) {
  const FakeResult unknown = run("gfx90a");
  EXPECT_EQ(unknown.code, XLA_FFI_Error_Code_UNIMPLEMENTED);
  EXPECT_EQ(unknown.message, "jaxator: architecture=gfx90a: this build has kernels for gfx942, gfx950");
  EXPECT_EQ(run("").code, XLA_FFI_Error_Code_INVALID_ARGUMENT);
}

TEST_F(EmulatedHandlers, AFindingIsAnErrorWithItsReport) {
  FakeCall call = forward(x, weight, y);
  call.attributes["architecture"] = std::string("gfx942");
  call.attributes["epsilon"] = -1.0f;
  EXPECT_EQ(call.run(handler("rms_norm_forward_emulated"), XLA_FFI_ExecutionStage_EXECUTE).code,
            XLA_FFI_Error_Code_INVALID_ARGUMENT);
  // The row is longer than its array: the kernel reads past the end.
  FakeCall longer;
  longer.attributes = forward(x, weight, y).attributes;
  longer.attributes["architecture"] = std::string("gfx942");
  longer.operand(XLA_FFI_DataType_F32, {kRows, kColumns}, x);
  longer.operand(XLA_FFI_DataType_F32, {kColumns}, weight);
  longer.result(XLA_FFI_DataType_F32, {kColumns}, y);
  const FakeResult result = longer.run(handler("rms_norm_forward_emulated"), XLA_FFI_ExecutionStage_EXECUTE);
  EXPECT_EQ(result.code, XLA_FFI_Error_Code_INTERNAL);
  for (const char* part : {"launching kernel rms_norm_forward2_f32: hipErrorLaunchFailure", "bounds", "memory.h:"})
    EXPECT_NE(result.message.find(part), std::string::npos) << result.message;
}

}  // namespace
}  // namespace jaxator::testing
