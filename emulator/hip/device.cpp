/// @file
/// Errors, devices and their properties.
#include <algorithm>
#include <cstring>

#include "emulator/hip/state.h"

namespace jaxator::hip_emulator {
namespace {

struct ErrorText {
  hipError_t code;
  const char *name, *text;
};

constexpr ErrorText kErrors[] = {
    {hipSuccess, "hipSuccess", "no error"},
    {hipErrorInvalidValue, "hipErrorInvalidValue", "invalid argument"},
    {hipErrorOutOfMemory, "hipErrorOutOfMemory", "out of memory"},
    {hipErrorInvalidDevice, "hipErrorInvalidDevice", "invalid device ordinal"},
    {hipErrorInvalidImage, "hipErrorInvalidImage", "device kernel image is invalid"},
    {hipErrorNoBinaryForGpu, "hipErrorNoBinaryForGpu", "no kernel image is available for execution on the device"},
    {hipErrorInvalidHandle, "hipErrorInvalidHandle", "invalid resource handle"},
    {hipErrorNotFound, "hipErrorNotFound", "named symbol not found"},
    {hipErrorNotReady, "hipErrorNotReady", "device not ready"},
    {hipErrorLaunchFailure, "hipErrorLaunchFailure", "unspecified launch failure"},
    {hipErrorUnknown, "hipErrorUnknown", "unknown error"},
};

const ErrorText& text_of(hipError_t code) {
  const auto* found = std::ranges::find(kErrors, code, &ErrorText::code);
  return found == std::end(kErrors) ? std::end(kErrors)[-1] : *found;
}

constexpr emulator::Architecture kArchitectures[kDevices] = {emulator::Architecture::gfx942, emulator::Architecture::gfx950};

}  // namespace

emulator::Device& device(int index) {
  // Never destroyed: memory may still be mapped when the process ends.
  static emulator::Device* devices[] = {new emulator::Device(kArchitectures[0]), new emulator::Device(kArchitectures[1])};
  return *devices[index];
}

Thread& this_thread() {
  static thread_local Thread thread;
  return thread;
}

hipError_t finish(hipError_t result, std::string report) {
  Thread& thread = this_thread();
  thread.last = result;
  thread.report = std::move(report);
  return result;
}

}  // namespace jaxator::hip_emulator

using namespace jaxator::hip_emulator;

const char* hipGetErrorName(hipError_t error) { return text_of(error).name; }
const char* hipGetErrorString(hipError_t error) { return text_of(error).text; }
hipError_t hipGetLastError() { return std::exchange(this_thread().last, hipSuccess); }
const char* jaxator_emulator_report() { return this_thread().report.c_str(); }

hipError_t hipInit(unsigned flags) {
  return guarded([&] { require(flags == 0, hipErrorInvalidValue, "flags=" + std::to_string(flags) + ": must be 0"); });
}

hipError_t hipGetDeviceCount(int* count) {
  return guarded([&] { *count = kDevices; });
}

hipError_t hipGetDevice(int* index) {
  return guarded([&] { *index = this_thread().device; });
}

hipError_t hipSetDevice(int index) {
  return guarded([&] {
    require_device(index);
    this_thread().device = index;
  });
}

hipError_t hipDeviceSynchronize() { return hipSuccess; }

hipError_t hipDeviceGetAttribute(int* value, int attribute, int index) {
  return guarded([&] {
    require_device(index);
    const bool gfx942 = kArchitectures[index] == jaxator::emulator::Architecture::gfx942;
    switch (attribute) {
      case hipDeviceAttributeComputeCapabilityMajor:
        *value = 9;
        return;
      case hipDeviceAttributeComputeCapabilityMinor:
        *value = gfx942 ? 4 : 5;
        return;
      case hipDeviceAttributeMaxThreadsPerBlock:
        *value = 1024;
        return;
      case hipDeviceAttributeMultiprocessorCount:  // of MI300X and MI355X
        *value = gfx942 ? 304 : 256;
        return;
      case hipDeviceAttributeMaxSharedMemoryPerBlock:
        *value = (gfx942 ? 64 : 160) << 10;
        return;
      case hipDeviceAttributeWarpSize:
        *value = 64;
        return;
      default:
        throw Failure(hipErrorInvalidValue, "attribute=" + std::to_string(attribute) + ": the emulator does not know it");
    }
  });
}

hipError_t hipGetDevicePropertiesR0600(hipDeviceProp_tR0600* properties, int index) {
  return guarded([&] {
    require_device(index);
    const std::string architecture = jaxator::emulator::name(kArchitectures[index]);
    *properties = {};
    const std::string name = architecture + " (emulated)", features = architecture + ":sramecc+:xnack-";
    std::memcpy(properties->name, name.c_str(), name.size());
    std::memcpy(properties->gcnArchName, features.c_str(), features.size());
  });
}
