/// The FFI handlers of libjaxator_xla.so, called as XLA calls them, on the stub of a driver.
#include <dlfcn.h>

#include "jaxator/rms_norm.h"
#include "src/ops/rms_norm/hopper.h"
#include "src/runtime/blob.h"
#include "tests/cpp/cuda_testing.h"
#include "tests/cpp/fake_xla.h"

namespace jaxator::testing {
namespace {

XLA_FFI_Handler* handler(const std::string& name) {
  static void* library = dlopen(JAXATOR_XLA_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  auto* found = reinterpret_cast<XLA_FFI_Handler*>(dlsym(library, ("jaxator_" + name).c_str()));
  if (found == nullptr) throw std::runtime_error(name + " is not exported");
  return found;
}

class CudaHandlers : public StubCuda {
 protected:
  CudaHandlers() { device_ = fresh_device(); }

  FakeCall call() const {
    FakeCall call;
    call.context.stream = stream();
    call.context.device = device_;
    call.attributes["version"] = int64_t{1};
    return call;
  }
  static FakeResult instantiate(FakeCall& call, const std::string& name) {
    return call.run(handler(name + "_instantiate"), XLA_FFI_ExecutionStage_INSTANTIATE);
  }
  static FakeResult initialize(FakeCall& call, const std::string& name) {
    return call.run(handler(name + "_cuda_initialize"), XLA_FFI_ExecutionStage_INITIALIZE);
  }
  static FakeResult execute(FakeCall& call, const std::string& name) {
    return call.run(handler(name + "_cuda"), XLA_FFI_ExecutionStage_EXECUTE);
  }

  int device_ = 0;
};

void expect_success(const FakeResult& result) { EXPECT_EQ(result.code, 0) << result.message; }

/// Names of the "error" the handlers return.
void expect_error(const FakeResult& result, XLA_FFI_Error_Code code, const std::string& text) {
  EXPECT_EQ(result.code, code);
  EXPECT_EQ(result.message, "jaxator: " + text);
}

alignas(64) char memory[4][256];

// ---- an op -----------------------------------------------------------------------------------------------------------------

class CudaNormHandlers : public CudaHandlers {
 protected:
  FakeCall forward() const {
    FakeCall c = call();
    c.attributes["epsilon"] = 1e-5f;
    c.attributes["has_residual"] = false;
    c.attributes["has_weight"] = true;
    c.operand(XLA_FFI_DataType_BF16, {2, 3, 16}, memory[0]);
    c.operand(XLA_FFI_DataType_F32, {16}, memory[1]);
    c.result(XLA_FFI_DataType_BF16, {2, 3, 16}, memory[2]);
    return c;
  }
};

TEST_F(CudaNormHandlers, OnlyExecuteIsDeclaredCapturable) {
  for (const char* name : {"rms_norm_forward", "rms_norm_backward", "call_kernel"}) {
    EXPECT_EQ(FakeCall::traits(handler(std::string(name) + "_cuda")), XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE);
    EXPECT_EQ(FakeCall::traits(handler(std::string(name) + "_cuda_initialize")), 0u);
    EXPECT_EQ(FakeCall::traits(handler(std::string(name) + "_instantiate")), 0u);
    EXPECT_EQ(FakeCall::traits(handler(name)), 0u);
  }
}

TEST_F(CudaNormHandlers, InitializeLoadsAndExecuteLaunches) {
  FakeCall c = forward();
  expect_success(instantiate(c, "rms_norm_forward"));
  EXPECT_EQ(stub_record().loads.size(), 0u);
  for (int i = 0; i < 2; i++) expect_success(initialize(c, "rms_norm_forward"));
  EXPECT_EQ(stub_record().lookups.size(), 1u);
  EXPECT_EQ(stub_record().launches.size(), 0u);
  const size_t loads = stub_record().loads.size();
  for (int i = 0; i < 2; i++) expect_success(execute(c, "rms_norm_forward"));
  EXPECT_EQ(stub_record().loads.size(), loads);
  ASSERT_EQ(stub_record().launches.size(), 2u);
  const StubLaunch launch = stub_record().launches[1];
  EXPECT_EQ(launch.stream, stream());
  const auto p = launch.argument<hopper::RmsNormForward>(0);
  EXPECT_EQ(p.x, memory[0]);
  EXPECT_EQ(p.weight, reinterpret_cast<float*>(memory[1]));
  EXPECT_EQ(p.y, memory[2]);
  EXPECT_EQ(p.rows, 6);
  EXPECT_EQ(p.columns, 16);
  EXPECT_EQ(p.epsilon, 1e-5f);
}

TEST_F(CudaNormHandlers, EachDeviceLoadsItsOwn) {
  FakeCall c = forward();
  expect_success(initialize(c, "rms_norm_forward"));
  const size_t loads = stub_record().loads.size();
  c.context.device = fresh_device();
  EXPECT_EQ(execute(c, "rms_norm_forward").code, XLA_FFI_Error_Code_INTERNAL);
  expect_success(initialize(c, "rms_norm_forward"));
  EXPECT_EQ(stub_record().loads.size(), 2 * loads);
  expect_success(execute(c, "rms_norm_forward"));
}

TEST_F(CudaNormHandlers, GroupsWithWeightsOfTheirOwnAreLaunchedOneByOne) {
  FakeCall c = call();
  c.attributes["epsilon"] = 1e-5f;
  c.attributes["has_residual"] = false;
  c.attributes["has_weight"] = true;
  c.operand(XLA_FFI_DataType_F32, {3, 2, 8}, memory[0]);
  c.operand(XLA_FFI_DataType_F32, {3, 8}, memory[1]);
  c.result(XLA_FFI_DataType_F32, {3, 2, 8}, memory[2]);
  expect_success(initialize(c, "rms_norm_forward"));
  expect_success(execute(c, "rms_norm_forward"));
  const std::vector<StubLaunch> launches = stub_record().launches;
  ASSERT_EQ(launches.size(), 3u);
  for (int g = 0; g < 3; g++) {
    const auto p = launches[g].argument<hopper::RmsNormForward>(0);
    EXPECT_EQ(p.x, memory[0] + g * 2 * 8 * 4);
    EXPECT_EQ(p.weight, reinterpret_cast<float*>(memory[1]) + g * 8);
    EXPECT_EQ(p.rows, 2);
  }
}

TEST_F(CudaNormHandlers, ScratchThatIsTooSmallIsAnError) {
  const RmsNormDesc desc{
      .type = DType::f32, .rows = 4, .columns = 8, .epsilon = 1e-5f, .has_residual = false, .has_weight = true};
  const int64_t floats = rms_norm_cuda_scratch_floats(desc);
  for (int64_t given : {floats, floats - 1}) {
    FakeCall c = call();
    c.attributes["epsilon"] = 1e-5f;
    c.attributes["has_residual"] = false;
    c.attributes["has_weight"] = true;
    c.operand(XLA_FFI_DataType_F32, {4, 8}, memory[0]);
    c.operand(XLA_FFI_DataType_F32, {8}, memory[1]);
    c.operand(XLA_FFI_DataType_F32, {4, 8}, memory[0]);
    c.result(XLA_FFI_DataType_F32, {4, 8}, memory[2]);
    c.result(XLA_FFI_DataType_F32, {8}, memory[3]);
    c.result(XLA_FFI_DataType_F32, {given}, memory[3]);
    const FakeResult result = initialize(c, "rms_norm_backward");
    if (given == floats)
      expect_success(result);
    else
      expect_error(result, XLA_FFI_Error_Code_INVALID_ARGUMENT,
                   "scratch has " + std::to_string(given) + " elements: needs " + std::to_string(floats));
  }
}

TEST_F(CudaNormHandlers, ErrorsComeBackWithTheirCode) {
  FakeCall c = forward();
  const FakeResult unprepared = execute(c, "rms_norm_forward");
  EXPECT_EQ(unprepared.code, XLA_FFI_Error_Code_INTERNAL);
  EXPECT_NE(unprepared.message.find(" is not loaded on device " + std::to_string(device_) + ": it was not prepared"),
            std::string::npos)
      << unprepared.message;
  stub_fail("cuModuleLoadDataEx", kStubInvalidPtx, 2, "line 3");
  expect_error(initialize(c, "rms_norm_forward"), XLA_FFI_Error_Code_INTERNAL,
               "loading the kernels rms_norm_forward: CUDA_ERROR_INVALID_PTX (the stub's text)\nline 3");
  c.attributes["epsilon"] = -1.0f;
  expect_error(instantiate(c, "rms_norm_forward"), XLA_FFI_Error_Code_INVALID_ARGUMENT,
               "epsilon=-1.000000: must be finite and not negative");
  c.attributes["epsilon"] = int64_t{1};
  expect_error(instantiate(c, "rms_norm_forward"), XLA_FFI_Error_Code_INVALID_ARGUMENT,
               "attribute epsilon is missing or has another type");
  c.attributes.erase("epsilon");
  expect_error(execute(c, "rms_norm_forward"), XLA_FFI_Error_Code_INVALID_ARGUMENT,
               "attribute epsilon is missing or has another type");
  c.attributes["version"] = int64_t{7};
  expect_error(instantiate(c, "rms_norm_forward"), XLA_FFI_Error_Code_INVALID_ARGUMENT,
               "version=7: this library reads version 1");
  FakeCall integers = call();
  integers.attributes = forward().attributes;
  integers.operand(XLA_FFI_DataType_S32, {2, 3}, memory[0]);
  expect_error(initialize(integers, "rms_norm_forward"), XLA_FFI_Error_Code_INVALID_ARGUMENT, "operand 1 is missing");
  FakeCall none = call();
  expect_error(none.run(handler("no_kernels"), XLA_FFI_ExecutionStage_EXECUTE), XLA_FFI_Error_Code_UNIMPLEMENTED,
               "this build has no kernels for this GPU platform; use implementation=\"xla\"");
}

// ---- kernels from outside --------------------------------------------------------------------------------------------------

constexpr const char* kSaxpy = R"(
.version 8.0
.target sm_90a
.address_size 64
.visible .entry saxpy(.param .u64 x, .param .u64 y, .param .u64 out, .param .s32 n, .param .f32 a, .param .f64 b)
.maxntid 256
{ ret; }
)";

std::string base64(std::string_view bytes) {
  const char* digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t three = 0;
    for (size_t j = 0; j < 3; j++) three = three << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0);
    for (size_t j = 0; j < 4; j++) text += i + j > bytes.size() ? '=' : digits[three >> (18 - 6 * j) & 63];
  }
  return text;
}

template <class T> int64_t bits_of(T value) {
  int64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

class CudaCallKernel : public CudaHandlers {
 protected:
  FakeCall saxpy(const std::string& text = kSaxpy) const {
    FakeCall c = call();
    c.attributes["blob"] = base64(text);
    c.attributes["hash"] = sha256(text);
    c.attributes["name"] = std::string("saxpy");
    c.attributes["grid"] = std::vector<int64_t>{7, 2, 1};
    c.attributes["block"] = std::vector<int64_t>{128, 1, 1};
    c.attributes["cluster"] = std::vector<int64_t>{1, 2, 1};
    c.attributes["shared_bytes"] = int64_t{4096};
    c.attributes["scalars"] = std::vector<int64_t>{bits_of(-5), bits_of(2.5f), bits_of(0.125)};
    c.attributes["scalar_bytes"] = std::vector<int64_t>{4, 4, 8};
    c.operand(XLA_FFI_DataType_F32, {64}, memory[0]);
    c.operand(XLA_FFI_DataType_F8E4M3FN, {8, 8}, memory[1]);  // any type: the kernel gets the address
    c.result(XLA_FFI_DataType_S4, {64}, memory[2]);
    return c;
  }
};

TEST_F(CudaCallKernel, ArraysThenScalarsReachTheKernel) {
  FakeCall c = saxpy();
  expect_success(instantiate(c, "call_kernel"));
  for (int i = 0; i < 3; i++) expect_success(initialize(c, "call_kernel"));
  EXPECT_EQ(stub_record().loads.size(), 1u);
  EXPECT_EQ(stub_record().loads[0].image, kSaxpy);
  EXPECT_EQ(stub_record().launches.size(), 0u);
  expect_success(execute(c, "call_kernel"));
  ASSERT_EQ(stub_record().launches.size(), 1u);
  const StubLaunch launch = stub_record().launches[0];
  EXPECT_EQ(launch.entry, "saxpy");
  EXPECT_EQ(launch.grid, (std::array<unsigned, 3>{7, 2, 1}));
  EXPECT_EQ(launch.block, (std::array<unsigned, 3>{128, 1, 1}));
  EXPECT_EQ(launch.cluster, (std::array<unsigned, 3>{1, 2, 1}));
  EXPECT_EQ(launch.shared_bytes, 4096u);
  EXPECT_EQ(launch.stream, stream());
  for (size_t i = 0; i < 3; i++) EXPECT_EQ(launch.argument<void*>(i), memory[i]);
  EXPECT_EQ(launch.argument<int32_t>(3), -5);
  EXPECT_EQ(launch.argument<float>(4), 2.5f);
  EXPECT_EQ(launch.argument<double>(5), 0.125);
}

TEST_F(CudaCallKernel, SeveralThreadsInitializeAtOnce) {
  std::vector<std::thread> threads;
  std::vector<FakeResult> results(8);
  for (size_t i = 0; i < results.size(); i++)
    threads.emplace_back([&, i] {
      FakeCall c = saxpy();
      results[i] = initialize(c, "call_kernel");
      if (results[i].code == 0) results[i] = execute(c, "call_kernel");
    });
  for (std::thread& thread : threads) thread.join();
  for (const FakeResult& result : results) expect_success(result);
  EXPECT_EQ(stub_record().loads.size(), 1u);
  EXPECT_EQ(stub_record().launches.size(), results.size());
}

TEST_F(CudaCallKernel, WhatTheKernelCannotTakeIsAnErrorOfInitialize) {
  const auto refused = [&](auto&& change, XLA_FFI_Error_Code code = XLA_FFI_Error_Code_INVALID_ARGUMENT) {
    FakeCall c = saxpy();
    change(c);
    const FakeResult result = initialize(c, "call_kernel");
    EXPECT_EQ(result.code, code);
    return result.message;
  };
  EXPECT_EQ(refused([](FakeCall& c) { c.attributes["name"] = std::string("daxpy"); }, XLA_FFI_Error_Code_INTERNAL),
            "jaxator: looking for kernel daxpy in the blob: CUDA_ERROR_NOT_FOUND (the stub's text)");
  EXPECT_EQ(refused([](FakeCall& c) { c.operand(XLA_FFI_DataType_F32, {}, memory[3]); }),
            "jaxator: kernel saxpy: arguments=7: the kernel takes 6");
  EXPECT_EQ(refused([](FakeCall& c) { c.attributes["scalar_bytes"] = std::vector<int64_t>{8, 4, 8}; }),
            "jaxator: kernel saxpy: bytes of argument 3=8: the kernel takes 4");
  EXPECT_EQ(refused([](FakeCall& c) { c.attributes["block"] = std::vector<int64_t>{257, 1, 1}; }),
            "jaxator: kernel saxpy: threads in a block=257: must be at most 256");
  EXPECT_EQ(refused([](FakeCall& c) { c.attributes["shared_bytes"] = int64_t{240000}; }),
            "jaxator: kernel saxpy: shared_bytes=240000: must be at most 232448");
  EXPECT_EQ(refused([](FakeCall& c) { c.attributes["cluster"] = std::vector<int64_t>{2, 1, 1}; }),
            "jaxator: kernel saxpy: grid.x=7: must be a multiple of the cluster's 2");
  EXPECT_EQ(refused([](FakeCall& c) {
              for (int i = 0; i < 300; i++) c.operand(XLA_FFI_DataType_F32, {}, memory[3]);
            }),
            "jaxator: call_kernel: 306 arguments: must be at most 256");
  EXPECT_EQ(stub_record().launches.size(), 0u);
}

TEST_F(CudaCallKernel, TheBlobMustBeWhatItsHashSays) {
  const std::string other = std::string(kSaxpy) + "// another";
  FakeCall c = saxpy(other);
  c.attributes["hash"] = sha256(kSaxpy);
  expect_error(initialize(c, "call_kernel"), XLA_FFI_Error_Code_INVALID_ARGUMENT,
               "blob: its SHA-256 is " + sha256(other) + ", the program says " + sha256(kSaxpy));
  c.attributes["blob"] = base64(other) + "!";
  EXPECT_EQ(initialize(c, "call_kernel").code, XLA_FFI_Error_Code_INVALID_ARGUMENT);
  FakeCall binary = saxpy("no PTX");
  expect_error(initialize(binary, "call_kernel"), XLA_FFI_Error_Code_INTERNAL,
               "loading the blob: CUDA_ERROR_INVALID_IMAGE (the stub's text)");
  FakeCall unprepared = saxpy();
  unprepared.context.device = fresh_device();
  expect_error(execute(unprepared, "call_kernel"), XLA_FFI_Error_Code_INTERNAL,
               "kernel saxpy is not loaded on device " + std::to_string(unprepared.context.device) + ": it was not prepared");
}

TEST_F(CudaCallKernel, AttributesAreCheckedWhenAProgramIsCompiled) {
  const auto refused = [&](const std::string& name, FakeCall::Value value) {
    FakeCall c = saxpy();
    c.attributes[name] = std::move(value);
    return instantiate(c, "call_kernel").message;
  };
  using Numbers = std::vector<int64_t>;
  EXPECT_EQ(refused("name", std::string()), "jaxator: call_kernel: name=\"\": must name a kernel");
  EXPECT_EQ(refused("grid", Numbers{1, 2}), "jaxator: call_kernel: grid has 2 numbers: must have 3");
  EXPECT_EQ(refused("block", Numbers{1, 0, 1}), "jaxator: call_kernel: block=0: must be positive int32");
  EXPECT_EQ(refused("cluster", Numbers{1, 1, int64_t{1} << 31}),
            "jaxator: call_kernel: cluster=2147483648: must be positive int32");
  EXPECT_EQ(refused("shared_bytes", int64_t{-4}), "jaxator: call_kernel: shared_bytes=-4: must be int32 and not negative");
  EXPECT_EQ(refused("scalars", Numbers{1}), "jaxator: call_kernel: scalars and scalar_bytes differ in length");
  EXPECT_EQ(refused("scalar_bytes", Numbers{4, 4, 3}), "jaxator: call_kernel: scalar of 3 bytes: must be 1, 2, 4 or 8");
  EXPECT_EQ(refused("version", int64_t{2}), "jaxator: version=2: this library reads version 1");
}

TEST_F(CudaCallKernel, OnTheHostABlobMustBeASharedObject) {
  FakeCall c = saxpy();
  c.context.stream = nullptr;
  expect_error(c.run(handler("call_kernel"), XLA_FFI_ExecutionStage_EXECUTE), XLA_FFI_Error_Code_INVALID_ARGUMENT,
               "blob: the " + std::to_string(std::strlen(kSaxpy)) + " bytes are no ELF file: must be a shared object for x86-64");
}

}  // namespace
}  // namespace jaxator::testing
