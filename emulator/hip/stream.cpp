/// @file
/// Streams and events. Every call has done its work when it returns, so there is nothing to wait for; handles are checked.
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "emulator/hip/state.h"

using Clock = std::chrono::steady_clock;

struct ihipStream_t {
  int device;
};
struct ihipEvent_t {
  std::optional<Clock::time_point> recorded;
};

namespace jaxator::hip_emulator {
namespace {

struct Handles {
  std::mutex mutex;
  std::map<hipStream_t, std::unique_ptr<ihipStream_t>> streams;
  std::map<hipEvent_t, std::unique_ptr<ihipEvent_t>> events;
};

Handles& handles() {
  static auto* handles = new Handles;
  return *handles;
}

/// Runs body(event) while no other thread can destroy it.
template <class Body> hipError_t with_event(hipEvent_t event, Body&& body) {
  return guarded([&] {
    Handles& h = handles();
    std::lock_guard lock(h.mutex);
    require(h.events.contains(event), hipErrorInvalidHandle, "the event does not exist");
    body(*event);
  });
}

}  // namespace

int device_of(hipStream_t stream) {
  if (stream == nullptr) return this_thread().device;
  Handles& h = handles();
  std::lock_guard lock(h.mutex);
  require(h.streams.contains(stream), hipErrorInvalidHandle, "the stream does not exist");
  return stream->device;
}

}  // namespace jaxator::hip_emulator

using namespace jaxator::hip_emulator;

hipError_t hipStreamCreate(hipStream_t* stream) {
  return guarded([&] {
    require(stream != nullptr, hipErrorInvalidValue, "stream is null");
    auto created = std::make_unique<ihipStream_t>(this_thread().device);
    Handles& h = handles();
    std::lock_guard lock(h.mutex);
    *stream = created.get();
    h.streams[*stream] = std::move(created);
  });
}

hipError_t hipStreamDestroy(hipStream_t stream) {
  return guarded([&] {
    Handles& h = handles();
    std::lock_guard lock(h.mutex);
    require(h.streams.erase(stream) == 1, hipErrorInvalidHandle, "the stream does not exist");
  });
}

hipError_t hipStreamSynchronize(hipStream_t stream) {
  return guarded([&] { device_of(stream); });
}

hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned) {
  return with_event(event, [&](ihipEvent_t&) {
    require(stream == nullptr || handles().streams.contains(stream), hipErrorInvalidHandle, "the stream does not exist");
  });
}

hipError_t hipEventCreate(hipEvent_t* event) {
  return guarded([&] {
    require(event != nullptr, hipErrorInvalidValue, "event is null");
    auto created = std::make_unique<ihipEvent_t>();
    Handles& h = handles();
    std::lock_guard lock(h.mutex);
    *event = created.get();
    h.events[*event] = std::move(created);
  });
}

hipError_t hipEventDestroy(hipEvent_t event) {
  return guarded([&] {
    Handles& h = handles();
    std::lock_guard lock(h.mutex);
    require(h.events.erase(event) == 1, hipErrorInvalidHandle, "the event does not exist");
  });
}

hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream) {
  return with_event(event, [&](ihipEvent_t& e) {
    require(stream == nullptr || handles().streams.contains(stream), hipErrorInvalidHandle, "the stream does not exist");
    e.recorded = Clock::now();
  });
}

hipError_t hipEventQuery(hipEvent_t event) {
  return with_event(event, [](ihipEvent_t&) {});
}
hipError_t hipEventSynchronize(hipEvent_t event) {
  return with_event(event, [](ihipEvent_t&) {});
}

hipError_t hipEventElapsedTime(float* milliseconds, hipEvent_t start, hipEvent_t stop) {
  return with_event(start, [&](ihipEvent_t& first) {
    require(handles().events.contains(stop), hipErrorInvalidHandle, "the event does not exist");
    require(first.recorded && stop->recorded, hipErrorInvalidHandle, "an event was not recorded");
    *milliseconds = std::chrono::duration<float, std::milli>(*stop->recorded - *first.recorded).count();
  });
}
