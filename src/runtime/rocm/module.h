/// @file
/// Kernel images and the functions loaded from them. Loaded once per driver and device, kept for the life of the process.
#pragma once

#include <atomic>
#include <string>
#include <string_view>

#include "src/runtime/rocm/driver.h"

namespace jaxator::rocm {

/// One source file, compiled for every architecture and embedded in the library.
struct Image {
  struct Code {
    const char* hash;  // of the contents: the key of the module cache
    const char *begin, *end;
  };
  const char* name;
  Code code[2];  // in the order of RocmArchitecture
};

/// A kernel on one device.
struct Function {
  const Driver* driver = nullptr;
  void* handle = nullptr;
  int max_threads = 0;
  int shared_bytes = 0;  // static
};

/// A kernel of an image. Objects live as long as the process; finding the loaded function is one atomic load.
class Kernel {
 public:
  constexpr Kernel(const Image& image, const char* entry) : image_(image), entry_(entry) {}
  const char* entry() const { return entry_; }
  const Image& image() const { return image_; }

  /// The function on a stream's device, loaded if the stream prepares; throws RocmError, also if it is not loaded and may not be.
  const Function& on(const RocmStream& stream) const;

 private:
  static constexpr int kDevices = 64;
  const Image& image_;
  const char* entry_;
  mutable std::atomic<const Function*> functions_[2][kDevices] = {};  // of machines, of the emulator
};

/// Kernels of a HSACO that came from outside, by a hash of its contents that the caller has verified. Null if the kernel is not
/// loaded on the device.
const Function* find_function(std::string_view hash, std::string_view entry, const RocmStream& stream);
const Function& load_function(std::string_view hash, const std::string& blob, std::string_view entry, const RocmStream& stream);

}  // namespace jaxator::rocm
