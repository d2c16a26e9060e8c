/// @file
/// Finishes tiles whose steps along k several blocks had: adds up what they left, in the order of k.
#include "src/ops/matmul/cdna_epilogue.h"

namespace jaxator::cdna {
namespace {

JAXATOR_SHARED __attribute__((aligned(1024))) u8 memory[kWaves * Exchange::kBytes];

template <class T> JAXATOR_DEVICE void sum_parts(MatmulParams p) {
  const u32 parts = p.parts;
  p.parts = 1;  // of this kernel's blocks
  const Place place;
  const TileIndex tile = tile_of_block(block_x(), p);
  Results sums = {};
#pragma unroll 1
  for (u32 part = 0; part < parts; part++) {
    const Buffer partials = partial_sums(p, tile, part);
#pragma unroll
    for (int i = 0; i < kBlockRows; i++)
#pragma unroll
      for (int j = 0; j < kBlockColumns; j++) sums[i][j] += partials.load<Accumulator<16>>(partial_offset(place, i, j));
  }
  finish<T>(sums, 1, (Lds)memory, place, tile, p);
}

}  // namespace

JAXATOR_KERNEL_OF_WAVES(kMatmulThreads, 2) matmul_sum_bf16(MatmulParams p) { sum_parts<Bf16>(p); }
JAXATOR_KERNEL_OF_WAVES(kMatmulThreads, 2) matmul_sum_f16(MatmulParams p) { sum_parts<F16>(p); }

}  // namespace jaxator::cdna
