/// @file
/// Launching a kernel. Arguments lie on the caller's stack; everything that can fail is checked when a stream only prepares.
#pragma once

#include <cstdint>

#include "src/runtime/rocm/module.h"

namespace jaxator::rocm {

struct Geometry {
  int64_t grid[3] = {1, 1, 1};  // in blocks
  int block[3] = {1, 1, 1};
  int shared_bytes = 0;  // dynamic
};

/// Threads, LDS and grid against what the function takes and the device offers: throws Error with the value. HIP tells nothing
/// about a kernel's arguments.
void prepare(const Function& function, const char* entry, const Geometry& geometry, RocmArchitecture architecture);

/// Launches, or only prepares where the stream says so.
void launch(const Function& function, const char* entry, const Geometry& geometry, const RocmStream& stream, void** arguments);

template <class... Args>
void launch(const Kernel& kernel, const Geometry& geometry, const RocmStream& stream, const Args&... args) {
  void* arguments[] = {const_cast<void*>(static_cast<const void*>(&args))...};
  launch(kernel.on(stream), kernel.entry(), geometry, stream, arguments);
}

}  // namespace jaxator::rocm
