#include "src/runtime/cuda/measure.h"

#include <dlfcn.h>

#include "jaxator/cuda.h"
#include "src/runtime/cuda/launch.h"

namespace jaxator::cuda {
namespace images {
extern const Image wgmma_peak;
}
namespace {

const Kernel kPeak{images::wgmma_peak, "wgmma_peak"};
constexpr int kPeakThreads = 256, kPeakSteps = 4096, kPeakShared = 64 * 128 * 2 + 256 * 128;

/// Functions of the driver that only measuring needs.
struct Timing {
  Result (*PrimaryRetain)(void**, int);
  Result (*SetCurrent)(void*);
  Result (*CopyAsync)(uint64_t, uint64_t, size_t, void*);
  Result (*EventCreate)(void**, unsigned);
  Result (*EventRecord)(void*, void*);
  Result (*EventSynchronize)(void*);
  Result (*EventElapsedTime)(float*, void*, void*);
  Result (*EventDestroy)(void*);
};

const Timing& timing() {
  static const Timing timing = [] {
    Timing t{};
    auto get = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(require_driver().library, name));
      if (function == nullptr) throw UnsupportedError(std::string("the CUDA driver lacks ") + name);
    };
    get(t.PrimaryRetain, "cuDevicePrimaryCtxRetain");
    get(t.SetCurrent, "cuCtxSetCurrent");
    get(t.CopyAsync, "cuMemcpyDtoDAsync_v2");
    get(t.EventCreate, "cuEventCreate");
    get(t.EventRecord, "cuEventRecord");
    get(t.EventSynchronize, "cuEventSynchronize");
    get(t.EventElapsedTime, "cuEventElapsedTime");
    get(t.EventDestroy, "cuEventDestroy_v2");
    return t;
  }();
  return timing;
}

struct Event {
  void* handle = nullptr;
  Event() { check(timing().EventCreate(&handle, 0), "cuEventCreate"); }
  ~Event() { timing().EventDestroy(handle); }
  void record() { check(timing().EventRecord(handle, nullptr), "cuEventRecord"); }
};

/// Seconds of what body puts on the default stream of a device.
template <class Body> double seconds_of(int device, Body&& body) {
  void* context = nullptr;
  check(timing().PrimaryRetain(&context, device), "cuDevicePrimaryCtxRetain");
  check(timing().SetCurrent(context), "cuCtxSetCurrent");
  Event start, stop;
  start.record();
  body();
  stop.record();
  check(timing().EventSynchronize(stop.handle), "cuEventSynchronize");
  float milliseconds = 0;
  check(timing().EventElapsedTime(&milliseconds, start.handle, stop.handle), "cuEventElapsedTime");
  return milliseconds * 1e-3;
}

}  // namespace

double copy_seconds(int device, uint64_t to, uint64_t from, int64_t bytes, int64_t count) {
  return seconds_of(device, [&] {
    for (int64_t i = 0; i < count; i++)
      check(timing().CopyAsync(to, from, static_cast<size_t>(bytes), nullptr), "cuMemcpyDtoDAsync");
  });
}

double peak_flops(int device) {
  // Two warpgroups a block, four products of 64 x 256 x 16 a step.
  return 2.0 * 64 * 256 * 16 * 4 * 2 * kPeakSteps * cuda_devices().at(device).multiprocessors;
}

double peak_seconds(int device, uint64_t out, int64_t count) {
  const Geometry geometry{
      .grid = {cuda_devices().at(device).multiprocessors, 1, 1}, .block = {kPeakThreads, 1, 1}, .shared_bytes = kPeakShared};
  const int steps = kPeakSteps;
  return seconds_of(device, [&] {
    launch(kPeak, geometry, {.device = device, .prepare_only = true}, out, steps);
    for (int64_t i = 0; i < count; i++) launch(kPeak, geometry, {.device = device}, out, steps);
  });
}

}  // namespace jaxator::cuda
