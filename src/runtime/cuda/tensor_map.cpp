#include "src/runtime/cuda/tensor_map.h"

#include "src/runtime/cuda/launch.h"

namespace jaxator::cuda {
namespace {

int driver_type(DType type) {
  constexpr int kFloat16 = 6, kFloat32 = 7, kBfloat16 = 9;
  return type == DType::f32 ? kFloat32 : type == DType::bf16 ? kBfloat16 : kFloat16;
}

}  // namespace

TensorMap tensor_map(const char* name, DType type, const void* address, std::initializer_list<MapDimension> dimensions,
                     MapSwizzle swizzle) {
  constexpr int kMostDimensions = 5;
  uint64_t sizes[kMostDimensions], strides[kMostDimensions];
  uint32_t box[kMostDimensions], steps[kMostDimensions];
  require_aligned(name, address, 16);
  if (dimensions.size() > kMostDimensions)
    throw Error(std::string(name) + " has " + std::to_string(dimensions.size()) + " dimensions: must have at most 5");
  unsigned rank = 0;
  for (const MapDimension& d : dimensions) {
    if (rank > 0 && d.stride_bytes % 16 != 0)
      throw Error(std::string(name) + ": stride of " + std::to_string(d.stride_bytes) + " bytes: must be a multiple of 16");
    if (rank > 0) strides[rank - 1] = d.stride_bytes;
    sizes[rank] = d.size, box[rank] = d.box, steps[rank] = 1;
    rank++;
  }
  constexpr int kNoInterleave = 0, kPromoteTo128Bytes = 2, kFillZeros = 0;
  TensorMap map;
  check(require_driver().TensorMapEncodeTiled(&map, driver_type(type), rank, const_cast<void*>(address), sizes, strides, box,
                                              steps, kNoInterleave, static_cast<int>(swizzle), kPromoteTo128Bytes, kFillZeros),
        "encoding the tensor map of " + std::string(name));
  return map;
}

}  // namespace jaxator::cuda
