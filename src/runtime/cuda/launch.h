/// @file
/// Launching a kernel. Arguments lie on the caller's stack; everything that can fail is checked when a stream only prepares.
#pragma once

#include <span>

#include "src/runtime/cuda/driver.h"
#include "src/runtime/cuda/module.h"

namespace jaxator::cuda {

struct Geometry {
  int64_t grid[3] = {1, 1, 1};
  int block[3] = {1, 1, 1};
  int shared_bytes = 0;  // dynamic
  int cluster[3] = {1, 1, 1};
};

/// What a kernel is given: where each argument lies, and how many bytes it has.
struct Arguments {
  void** pointers;
  std::span<const int> bytes;
};

/// Arguments, threads, shared memory, grid and cluster against what the function takes and the device offers: throws Error with
/// the value.
void prepare(Function& function, const char* entry, const Geometry& geometry, const Arguments& arguments, int device);

/// Launches, or only prepares where the stream says so.
void launch(Function& function, const char* entry, const Geometry& geometry, const CudaStream& stream,
            const Arguments& arguments);

template <class... Args>
void launch(const Kernel& kernel, const Geometry& geometry, const CudaStream& stream, const Args&... args) {
  static constexpr int kBytes[] = {int(sizeof(Args))...};
  void* pointers[] = {const_cast<void*>(static_cast<const void*>(&args))...};
  launch(kernel.on(stream.device, stream.prepare_only), kernel.entry(), geometry, stream, {pointers, kBytes});
}

/// Zeros on the stream, by the driver: before a kernel whose blocks tell each other of their progress.
void zero(void* to, int64_t words, const CudaStream& stream);

/// Throws Error unless the address is a multiple of `alignment`.
void require_aligned(const char* name, const void* address, int alignment);

}  // namespace jaxator::cuda
