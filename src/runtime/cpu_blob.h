/// @file
/// Kernels for the CPU that came from outside as a shared object: opened from memory, once, for the life of the process.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "jaxator/executor.h"

namespace jaxator {

/// Called once for each block of the grid, from several threads at a time.
///
/// arguments: for each array the address of its first element, for each scalar the address of its value.
/// grid: blocks along each of the three axes. block: this one's index along them.
using CpuKernel = void (*)(void* const* arguments, const int64_t* grid, const int64_t* block);

/// Throws Error unless the bytes are a shared object for x86-64 whose parts lie inside: the loader would fault on one cut short.
void check_shared_object(std::string_view bytes);

/// Kernels by a hash of the shared object that the caller has verified. Null if it was not loaded.
CpuKernel find_cpu_kernel(std::string_view hash, std::string_view name);

/// Throws Error for bytes that are no shared object, for one that the loader refuses (with its text), and for a missing name.
CpuKernel load_cpu_kernel(std::string_view hash, std::string_view bytes, const std::string& name);

/// An array that a kernel writes; it is taken that blocks on end write what follows each other in it.
struct CpuResult {
  const void* data = nullptr;
  int64_t bytes = 0;
};

/// Runs every block, with denormals kept. Throws Error if the kernel throws. `largest` of the results decides which blocks make a
/// task.
void run_cpu_kernel(CpuKernel kernel, const char* name, void* const* arguments, const int64_t (&grid)[3], Executor& executor,
                    const CpuResult& largest = {});

}  // namespace jaxator
