/// HIP's functions on the emulator, called as a HIP program calls them.
#include <cstring>
#include <thread>

#include "tests/cpp/rocm/testing.h"

namespace jaxator::testing {
namespace {

const rocm::Image::Code& code_of(int device) { return rocm::images::test_kernels.code[device]; }

class Hip : public ::testing::Test {
 protected:
  void SetUp() override {
    jaxator_emulator_configure(emulator::kWaits | emulator::kRaces | emulator::kPoison, 0, 2, 2);
    expect_ok(hipInit(0));
    for (int device : kDevices) {
      expect_ok(hipSetDevice(device));
      expect_ok(hipModuleLoadData(&modules_[device], code_of(device).begin));
    }
    expect_ok(hipSetDevice(0));
  }
  void TearDown() override {
    for (hipModule_t module : modules_) expect_ok(hipModuleUnload(module));
  }

  hipFunction_t function(int device, const char* name) {
    hipFunction_t found = nullptr;
    expect_ok(hipModuleGetFunction(&found, modules_[device], name));
    return found;
  }

  template <class... Args> static hipError_t launch(hipFunction_t f, unsigned blocks, unsigned threads, Args... args) {
    void* arguments[] = {static_cast<void*>(&args)..., nullptr};
    return hipModuleLaunchKernel(f, blocks, 1, 1, threads, 1, 1, 0, nullptr, arguments, nullptr);
  }

  hipModule_t modules_[2];
};

TEST_F(Hip, DevicesAndTheirProperties) {
  int count = 0, value = 0;
  expect_ok(hipGetDeviceCount(&count));
  EXPECT_EQ(count, 2);
  const char* names[] = {"gfx942:sramecc+:xnack-", "gfx950:sramecc+:xnack-"};
  for (int device : kDevices) {
    hipDeviceProp_tR0600 properties;
    expect_ok(hipGetDevicePropertiesR0600(&properties, device));
    EXPECT_STREQ(properties.gcnArchName, names[device]);
    expect_ok(hipDeviceGetAttribute(&value, hipDeviceAttributeMaxSharedMemoryPerBlock, device));
    EXPECT_EQ(value, device == 0 ? 65536 : 163840);
    expect_ok(hipDeviceGetAttribute(&value, hipDeviceAttributeComputeCapabilityMinor, device));
    EXPECT_EQ(value, device == 0 ? 4 : 5);
  }
  EXPECT_EQ(hipDeviceGetAttribute(&value, 12345, 0), hipErrorInvalidValue);
  EXPECT_STREQ(jaxator_emulator_report(), "attribute=12345: the emulator does not know it");
  EXPECT_EQ(hipSetDevice(2), hipErrorInvalidDevice);
  EXPECT_STREQ(jaxator_emulator_report(), "device=2: must be from 0 to 1");
  EXPECT_EQ(hipGetLastError(), hipErrorInvalidDevice);
  EXPECT_EQ(hipGetLastError(), hipSuccess);
  EXPECT_STREQ(hipGetErrorName(hipErrorNoBinaryForGpu), "hipErrorNoBinaryForGpu");
  EXPECT_STREQ(hipGetErrorString(hipErrorLaunchFailure), "unspecified launch failure");
}

TEST_F(Hip, TheDeviceIsTheThreads) {
  expect_ok(hipSetDevice(1));
  std::thread([] {
    int device = -1;
    expect_ok(hipGetDevice(&device));
    EXPECT_EQ(device, 0);
  }).join();
  int device = -1;
  expect_ok(hipGetDevice(&device));
  EXPECT_EQ(device, 1);
}

TEST_F(Hip, KernelsRunOnBothDevices) {
  for (int device : kDevices) {
    DeviceArray<float> array(device, std::vector<float>(1000, 3));
    expect_ok(launch(function(device, "scale"), 4, 256, array.data(), 2.0f, Part{0, 999}));
    std::vector<float> wanted(1000, 6);
    wanted[999] = 3;
    EXPECT_EQ(array.values(), wanted);
  }
}

TEST_F(Hip, ArgumentsCanComeInOneBlock) {
  DeviceArray<float> array(0, std::vector<float>(64, 1));
  struct {
    float* array;
    float factor;
    Part part;
  } arguments{array.data(), 5, {0, 64}};
  size_t bytes = sizeof arguments;
  void* extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, &arguments, HIP_LAUNCH_PARAM_BUFFER_SIZE, &bytes, HIP_LAUNCH_PARAM_END};
  expect_ok(hipModuleLaunchKernel(function(0, "scale"), 1, 1, 1, 64, 1, 1, 0, nullptr, nullptr, extra));
  EXPECT_EQ(array.values(), std::vector<float>(64, 5));
  bytes = 4096;
  EXPECT_EQ(hipModuleLaunchKernel(function(0, "scale"), 1, 1, 1, 64, 1, 1, 0, nullptr, nullptr, extra), hipErrorInvalidValue);
}

TEST_F(Hip, FunctionsHaveAttributes) {
  int value = 0;
  expect_ok(hipFuncGetAttribute(&value, HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function(0, "scale")));
  EXPECT_EQ(value, 256);
  expect_ok(hipFuncGetAttribute(&value, HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function(0, "race")));
  EXPECT_EQ(value, 1024);
  expect_ok(hipFuncGetAttribute(&value, HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, function(0, "race")));
  EXPECT_EQ(value, 0);
  EXPECT_EQ(hipFuncGetAttribute(&value, 99, function(0, "race")), hipErrorInvalidValue);
}

TEST_F(Hip, ModulesThatCannotBeLoaded) {
  hipModule_t module = nullptr;
  alignas(8) char text[64] = "no code object";
  EXPECT_EQ(hipModuleLoadData(&module, text), hipErrorInvalidImage);
  EXPECT_STREQ(jaxator_emulator_report(), "the image is no 64-bit ELF file");
  expect_ok(hipSetDevice(1));
  EXPECT_EQ(hipModuleLoadData(&module, code_of(0).begin), hipErrorNoBinaryForGpu);
  EXPECT_STREQ(jaxator_emulator_report(), "the code object is for gfx942, device 1 is a gfx950");
  EXPECT_EQ(module, nullptr);
  hipFunction_t found = nullptr;
  EXPECT_EQ(hipModuleGetFunction(&found, modules_[0], "scales"), hipErrorNotFound);
  EXPECT_NE(std::string(jaxator_emulator_report()).find("scales"), std::string::npos);
}

TEST_F(Hip, HandlesThatAreGoneAreRefused) {
  hipModule_t module = nullptr;
  expect_ok(hipModuleLoadData(&module, code_of(0).begin));
  hipFunction_t found = nullptr;
  expect_ok(hipModuleGetFunction(&found, module, "nothing"));
  expect_ok(launch(found, 1, 64));
  expect_ok(hipModuleUnload(module));
  EXPECT_EQ(launch(found, 1, 64), hipErrorInvalidHandle);
  EXPECT_EQ(hipModuleUnload(module), hipErrorInvalidHandle);
  hipStream_t stream = nullptr;
  expect_ok(hipStreamCreate(&stream));
  expect_ok(hipStreamDestroy(stream));
  EXPECT_EQ(hipStreamSynchronize(stream), hipErrorInvalidHandle);
  EXPECT_EQ(hipModuleLaunchKernel(function(0, "nothing"), 1, 1, 1, 64, 1, 1, 0, stream, nullptr, nullptr), hipErrorInvalidHandle);
  EXPECT_EQ(hipEventRecord(nullptr, nullptr), hipErrorInvalidHandle);
}

TEST_F(Hip, AKernelStaysOnItsDevice) {
  expect_ok(hipSetDevice(1));
  EXPECT_EQ(launch(function(0, "nothing"), 1, 64), hipErrorInvalidHandle);
  EXPECT_STREQ(jaxator_emulator_report(), "kernel nothing was loaded on device 0, the launch is on device 1");
  // Of a stream, whatever the thread's is.
  hipStream_t stream = nullptr;
  expect_ok(hipStreamCreate(&stream));
  expect_ok(hipSetDevice(0));
  expect_ok(hipModuleLaunchKernel(function(1, "nothing"), 1, 1, 1, 64, 1, 1, 0, stream, nullptr, nullptr));
  expect_ok(hipStreamDestroy(stream));
}

TEST_F(Hip, CopiesStayInTheirArrays) {
  DeviceArray<float> array(0, 16);
  std::vector<float> host(32, 1);
  expect_ok(hipMemset(array.data(), 0, 64));
  EXPECT_EQ(array.values(), std::vector<float>(16, 0));
  EXPECT_EQ(hipMemcpy(array.data() + 8, host.data(), 36, hipMemcpyHostToDevice), hipErrorInvalidValue);
  EXPECT_STREQ(jaxator_emulator_report(), "36 bytes from offset 32: the allocation has 64");
  EXPECT_EQ(hipMemcpy(host.data(), host.data() + 16, 64, hipMemcpyDeviceToHost), hipErrorInvalidValue);
  EXPECT_STREQ(jaxator_emulator_report(), "the source is memory of the host: the kind of the copy says otherwise");
  EXPECT_EQ(hipMemset(host.data(), 0, 4), hipErrorInvalidValue);
  EXPECT_EQ(hipFree(array.data() + 1), hipErrorInvalidValue);
  expect_ok(hipMemcpy(array.data(), host.data(), 64, hipMemcpyDefault));
  EXPECT_EQ(array.values(), std::vector<float>(16, 1));
  DeviceArray<float> other(1, 16);
  expect_ok(hipMemcpyAsync(other.data(), array.data(), 64, hipMemcpyDeviceToDevice, nullptr));
  EXPECT_EQ(other.values(), std::vector<float>(16, 1));
  void* empty = &empty;
  expect_ok(hipMalloc(&empty, 0));
  EXPECT_EQ(empty, nullptr);
  expect_ok(hipFree(nullptr));
}

TEST_F(Hip, KernelsUseRegisteredHostMemory) {
  alignas(64) static float host[64];
  std::fill(std::begin(host), std::end(host), 2.0f);
  EXPECT_EQ(launch(function(0, "scale"), 1, 64, &host[0], 3.0f, Part{0, 64}), hipErrorLaunchFailure);
  expect_ok(hipHostRegister(host, sizeof host, 0));
  for (int device : kDevices) {
    expect_ok(hipSetDevice(device));
    expect_ok(launch(function(device, "scale"), 1, 64, &host[0], 3.0f, Part{0, 64}));
  }
  expect_ok(hipHostUnregister(host));
  EXPECT_EQ(host[63], 18);
}

TEST_F(Hip, EventsTellTime) {
  hipEvent_t events[2];
  for (hipEvent_t& event : events) expect_ok(hipEventCreate(&event));
  float milliseconds = -1;
  EXPECT_EQ(hipEventElapsedTime(&milliseconds, events[0], events[1]), hipErrorInvalidHandle);
  for (hipEvent_t event : events) expect_ok(hipEventRecord(event, nullptr));
  expect_ok(hipStreamWaitEvent(nullptr, events[1], 0));
  expect_ok(hipEventQuery(events[1]));
  expect_ok(hipEventElapsedTime(&milliseconds, events[0], events[1]));
  EXPECT_GE(milliseconds, 0);
  for (hipEvent_t event : events) expect_ok(hipEventDestroy(event));
}

// ---- faults ----------------------------------------------------------------------------------------------------------------

struct Fault {
  const char *kernel, *kind;
};

class HipFaults : public Hip, public ::testing::WithParamInterface<std::tuple<int, Fault>> {};

TEST_P(HipFaults, AreErrorsThatNameTheKernelAndTheLine) {
  const auto [device, fault] = GetParam();
  DeviceArray<float> array(device, 256), out(device, 256);
  if (std::strcmp(fault.kernel, "uninitialised") != 0) expect_ok(hipMemset(array.data(), 0, 1024));
  const hipFunction_t f = function(device, fault.kernel);
  const std::string kernel = fault.kernel;
  const hipError_t result = kernel == "race"           ? launch(f, 1, 256, array.data())
                            : kernel == "past_the_end" ? launch(f, 1, 64, array.data(), 256u)
                                                       : launch(f, 1, 64, array.data(), out.data());
  EXPECT_EQ(result, hipErrorLaunchFailure);
  const std::string report = jaxator_emulator_report();
  for (const std::string& part : {kernel, std::string(fault.kind), std::string("kernels.cpp:")})
    EXPECT_NE(report.find(part), std::string::npos) << "no \"" << part << "\" in\n" << report;
  EXPECT_EQ(hipGetLastError(), hipErrorLaunchFailure);
}

constexpr Fault kFaults[] = {
    {"race", "race"}, {"past_the_end", "bounds"}, {"uninitialised", "uninitialised"}, {"missing_wait", "wait"}};
INSTANTIATE_TEST_SUITE_P(Every, HipFaults, ::testing::Combine(::testing::ValuesIn(kDevices), ::testing::ValuesIn(kFaults)),
                         [](const auto& info) {
                           return std::string(std::get<1>(info.param).kernel) +
                                  (std::get<0>(info.param) == 0 ? "_gfx942" : "_gfx950");
                         });

}  // namespace
}  // namespace jaxator::testing
