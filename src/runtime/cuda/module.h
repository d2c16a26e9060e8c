/// @file
/// Kernel images and the functions loaded from them. Loaded once per device, kept for the life of the process.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>
#include <string_view>

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
  std::atomic<int> shared_bytes{0};  // dynamic shared memory that it may use so far
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

/// A kernel of a blob (PTX text or cubin) that came from outside, found by a hash of its contents that the caller provides.
Function& find_function(std::string_view hash, std::string_view blob, const std::string& entry, int device, bool load);

}  // namespace jaxator::cuda
