/// @file
/// Kernel images and the functions loaded from them. Loaded once per device, kept for the life of the process.
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jaxator/cuda.h"

namespace jaxator::cuda {

/// One compiled source file, embedded in the library: PTX that any driver compiles, and where ptxas was at hand when the
/// library was built, a cubin that needs no compilation.
struct Image {
  const char* name;
  const char* hash;  // of the contents: the key of the module cache
  const char *ptx, *ptx_end;
  const char *cubin, *cubin_end;
};

/// A kernel on one device.
struct Function {
  void* handle = nullptr;
  int max_threads = 0;
  int cluster[3] = {};                              // that it was compiled for; zeros: any
  std::optional<std::vector<int>> parameter_bytes;  // of each parameter, where the driver can tell
  std::atomic<int> shared_bytes{0};                 // dynamic shared memory that it may use so far
};

/// A kernel of an image. Objects live as long as the process; finding the loaded function is one atomic load.
class Kernel {
 public:
  constexpr Kernel(const Image& image, const char* entry) : image_(image), entry_(entry) {}
  const char* entry() const { return entry_; }
  const Image& image() const { return image_; }

  /// The function on a device, loaded if `load`; throws CudaError, also if it is not loaded and may not be.
  Function& on(int device, bool load) const;

 private:
  static constexpr int kDevices = 64;
  const Image& image_;
  const char* entry_;
  mutable std::atomic<Function*> functions_[kDevices] = {};
};

/// What loading has cost this process so far: functions, and nanoseconds in all and of the slowest.
struct LoadTimes {
  int64_t functions = 0, nanoseconds = 0, most = 0;
};
LoadTimes load_times();

/// Kernels of a blob (PTX text or cubin) that came from outside, by a hash of its contents that the caller has verified. Null if
/// the kernel is not loaded on the device.
Function* find_function(std::string_view hash, std::string_view entry, int device);
Function& load_function(std::string_view hash, const std::string& blob, std::string_view entry, int device);

}  // namespace jaxator::cuda
