/// @file
/// Kernels of which an image has one for each element type, and what their launchers share.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "jaxator/types.h"
#include "src/runtime/rocm/launch.h"

namespace jaxator {

/// In the order of DType.
using RocmKernelsByType = rocm::Kernel[3];
#define JAXATOR_ROCM_KERNELS_BY_TYPE(image, entry) {{image, entry "_f32"}, {image, entry "_bf16"}, {image, entry "_f16"}}

inline const rocm::Kernel& kernel_of(const RocmKernelsByType& kernels, DType type) { return kernels[static_cast<int>(type)]; }

/// Whether all addresses (null ones too) are multiples of 16 bytes.
inline bool rocm_aligned_for_vectors(std::initializer_list<const void*> arrays) {
  for (const void* array : arrays)
    if (reinterpret_cast<uintptr_t>(array) % 16 != 0) return false;
  return true;
}

}  // namespace jaxator
