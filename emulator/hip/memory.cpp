/// @file
/// Memory of the devices, and memory of the host that kernels may use. Device addresses are host addresses.
#include <cstring>
#include <map>
#include <mutex>

#include "emulator/hip/state.h"

namespace jaxator::hip_emulator {
namespace {

struct Allocation {
  size_t bytes;
  int device;
};

struct Memory {
  std::mutex mutex;
  std::map<const char*, Allocation> allocations;
};

Memory& memory() {
  static auto* memory = new Memory;
  return *memory;
}

/// The device that `bytes` from an address on belong to, -1 for memory of the host; Failure if they pass the end of an
/// allocation.
int owner_of(const void* address, size_t bytes) {
  Memory& m = memory();
  std::lock_guard lock(m.mutex);
  const char* at = static_cast<const char*>(address);
  auto next = m.allocations.upper_bound(at);
  if (next == m.allocations.begin()) return -1;
  const auto& [begin, allocation] = *std::prev(next);
  const size_t offset = static_cast<size_t>(at - begin);
  if (offset >= allocation.bytes) return -1;
  require(bytes <= allocation.bytes - offset, hipErrorInvalidValue,
          std::to_string(bytes) + " bytes from offset " + std::to_string(offset) + ": the allocation has " +
              std::to_string(allocation.bytes));
  return allocation.device;
}

void require_side(const char* which, bool on_device, bool expected) {
  require(on_device == expected, hipErrorInvalidValue,
          std::string(which) + " is memory of the " + (on_device ? "device" : "host") + ": the kind of the copy says otherwise");
}

void copy(void* to, const void* from, size_t bytes, int kind) {
  require(kind >= hipMemcpyHostToHost && kind <= hipMemcpyDefault, hipErrorInvalidValue,
          "kind=" + std::to_string(kind) + ": unknown");
  if (bytes == 0) return;
  require(to != nullptr && from != nullptr, hipErrorInvalidValue, "an address is null");
  const int target = owner_of(to, bytes), source = owner_of(from, bytes);
  if (kind != hipMemcpyDefault) {
    require_side("the target", target >= 0, kind == hipMemcpyHostToDevice || kind == hipMemcpyDeviceToDevice);
    require_side("the source", source >= 0, kind == hipMemcpyDeviceToHost || kind == hipMemcpyDeviceToDevice);
  }
  std::memmove(to, from, bytes);
  if (target >= 0) device(target).initialise(to, bytes);
}

void set(void* address, int value, size_t bytes) {
  if (bytes == 0) return;
  const int owner = owner_of(address, bytes);
  require(owner >= 0, hipErrorInvalidValue, "the address is not one of device memory");
  std::memset(address, value, bytes);
  device(owner).initialise(address, bytes);
}

}  // namespace
}  // namespace jaxator::hip_emulator

using namespace jaxator::hip_emulator;

hipError_t hipMalloc(void** address, size_t bytes) {
  return guarded([&] {
    require(address != nullptr, hipErrorInvalidValue, "address is null");
    *address = nullptr;
    if (bytes == 0) return;
    const int index = this_thread().device;
    *address = device(index).allocate(bytes);
    Memory& m = memory();
    std::lock_guard lock(m.mutex);
    m.allocations[static_cast<const char*>(*address)] = {bytes, index};
  });
}

hipError_t hipFree(void* address) {
  return guarded([&] {
    if (address == nullptr) return;
    int index = 0;
    {
      Memory& m = memory();
      std::lock_guard lock(m.mutex);
      const auto found = m.allocations.find(static_cast<const char*>(address));
      require(found != m.allocations.end(), hipErrorInvalidValue, "the address is not the start of an allocation");
      index = found->second.device;
      m.allocations.erase(found);
    }
    device(index).free(address);
  });
}

hipError_t hipMemcpy(void* to, const void* from, size_t bytes, int kind) {
  return guarded([&] { copy(to, from, bytes, kind); });
}
hipError_t hipMemcpyAsync(void* to, const void* from, size_t bytes, int kind, hipStream_t stream) {
  return guarded([&] {
    device_of(stream);
    copy(to, from, bytes, kind);
  });
}
hipError_t hipMemset(void* address, int value, size_t bytes) {
  return guarded([&] { set(address, value, bytes); });
}
hipError_t hipMemsetAsync(void* address, int value, size_t bytes, hipStream_t stream) {
  return guarded([&] {
    device_of(stream);
    set(address, value, bytes);
  });
}

hipError_t hipHostRegister(void* address, size_t bytes, unsigned) {
  return guarded([&] {
    for (int i = 0; i < kDevices; i++) device(i).map(address, bytes);
  });
}
hipError_t hipHostUnregister(void* address) {
  return guarded([&] {
    for (int i = 0; i < kDevices; i++) device(i).unmap(address);
  });
}

hipError_t jaxator_emulator_map(int index, void* address, size_t bytes, int initialised) {
  return guarded([&] {
    require_device(index);
    device(index).map(address, bytes, "", initialised != 0);
  });
}
hipError_t jaxator_emulator_unmap(int index, void* address) {
  return guarded([&] {
    require_device(index);
    device(index).unmap(address);
  });
}
