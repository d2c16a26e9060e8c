/// @file
/// The part of HIP's interface that is used here, by dlopen. Names and values are those of the HIP API reference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "jaxator/rocm.h"

namespace jaxator::rocm {

using Result = int;  // 0 is success

enum FunctionAttribute { kMaxThreadsPerBlock = 0, kSharedBytes = 1 };  // the latter: static
enum DeviceAttribute { kMultiprocessorCount = 63 };

/// hipDeviceProp_tR0600, of which the two texts are read; the rest leaves room for newer versions.
struct DeviceProperties {
  char name[256];
  char other[904];
  char architecture[256];
  char more[2680];
};
static_assert(offsetof(DeviceProperties, architecture) == 1160);

struct Driver {
  const char* (*GetErrorName)(Result);
  const char* (*GetErrorString)(Result);
  Result (*Init)(unsigned);
  Result (*GetDeviceCount)(int*);
  Result (*GetDevice)(int*);
  Result (*SetDevice)(int);
  Result (*GetDevicePropertiesR0600)(DeviceProperties*, int);
  Result (*DeviceGetAttribute)(int*, int, int);
  Result (*ModuleLoadData)(void**, const void*);
  Result (*ModuleGetFunction)(void**, void*, const char*);
  Result (*FuncGetAttribute)(int*, int, void*);
  Result (*ModuleLaunchKernel)(void*, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                               unsigned block_z, unsigned shared_bytes, void* stream, void** arguments, void** extra);

  // Of the emulator alone, null elsewhere.
  const char* (*Report)();  // what was wrong in the calling thread's last launch
  Result (*Map)(int device, void* address, size_t bytes, int initialised);
  Result (*Unmap)(int device, void* address);

  const Driver* before = nullptr;  // the one that use_driver replaced
  std::string missing;             // why the driver cannot be used; "" if it can
};

/// The driver of this machine, or the emulator beside this library; each opened once. Check `missing` before calling through it.
const Driver& driver(bool emulated = false);

/// The driver, or UnsupportedError that says why there is none.
const Driver& require_driver(bool emulated = false);

/// Opens this library instead of libamdhip64 from now on.
void use_driver(const char* path);

/// Throws RocmError with the driver's name and text for a result.
void check(const Driver& driver, Result result, const std::string& what);

/// Makes a device the calling thread's current one, and the one before again at the end: HIP loads and launches there.
class CurrentDevice {
 public:
  CurrentDevice(const Driver& driver, int device);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;

 private:
  const Driver& driver_;
  int before_ = 0;
  bool changed_ = false;
};

}  // namespace jaxator::rocm
