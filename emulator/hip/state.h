/// @file
/// What the HIP functions share: the devices, the calling thread's device and report, and the one way they fail.
#pragma once

#include <span>
#include <string>
#include <utility>

#include "emulator/hip/hip.h"
#include "jaxator/emulator.h"

namespace jaxator::hip_emulator {

inline constexpr int kDevices = 2;

emulator::Device& device(int index);

/// What one HIP function cannot do, with the code it returns.
class Failure : public emulator::Error {
 public:
  Failure(hipError_t code, const std::string& what) : Error(what), code(code) {}
  const hipError_t code;
};

struct Thread {
  int device = 0;
  hipError_t last = hipSuccess;
  std::string report;
};
Thread& this_thread();

/// Records a result as HIP does: hipGetLastError tells it.
hipError_t finish(hipError_t result, std::string report);

/// Runs the body of a HIP function; what it throws becomes the function's result, with its text as the report.
template <class Body> hipError_t guarded(Body&& body) {
  try {
    body();
    this_thread().report.clear();
    return hipSuccess;
  } catch (const Failure& failure) {
    return finish(failure.code, failure.what());
  } catch (const std::bad_alloc&) {
    return finish(hipErrorOutOfMemory, "");
  } catch (const emulator::Error& error) {
    return finish(hipErrorInvalidValue, error.what());
  } catch (const std::exception& error) {
    return finish(hipErrorUnknown, error.what());
  }
}

inline void require(bool holds, hipError_t code, const std::string& what) {
  if (!holds) throw Failure(code, what);
}

inline void require_device(int index) {
  require(index >= 0 && index < kDevices, hipErrorInvalidDevice,
          "device=" + std::to_string(index) + ": must be from 0 to " + std::to_string(kDevices - 1));
}

struct Launch {
  const emulator::Device& device;
  std::span<const uint8_t> image, arguments;
  const std::string& kernel;
  const emulator::LaunchOptions& options;
};
/// Keeps the launch where jaxator_emulator_record said, if it did.
void record(const Launch& launch);

/// The device of a stream; the calling thread's for the null stream.
int device_of(hipStream_t stream);

}  // namespace jaxator::hip_emulator
