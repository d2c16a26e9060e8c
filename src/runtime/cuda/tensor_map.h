/// @file
/// Tensor maps: how the bulk copy engine sees an array. Encoded on the host for each call (86 ns) and passed as a parameter.
#pragma once

#include <initializer_list>

#include "jaxator/types.h"
#include "src/runtime/cuda/driver.h"

namespace jaxator::cuda {

enum class MapSwizzle : int { none = 0, bytes32 = 1, bytes64 = 2, bytes128 = 3 };

/// One dimension of an array, innermost first; the innermost is contiguous.
struct MapDimension {
  uint64_t size;          // elements
  uint64_t stride_bytes;  // to the next index; not used for the innermost; a multiple of 16
  uint32_t box;           // elements of one copy, at most 256
};

/// Throws Error for an address or stride that is no multiple of 16, for sizes of 0 and what else the engine refuses.
TensorMap tensor_map(const char* name, DType type, const void* address, std::initializer_list<MapDimension> dimensions,
                     MapSwizzle swizzle = MapSwizzle::bytes128);

}  // namespace jaxator::cuda
