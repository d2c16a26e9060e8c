/// @file
/// Matrix products of operands without any alignment.
#include "src/ops/matmul/cdna_loose.h"

#include "src/ops/matmul/cdna_epilogue.h"

namespace jaxator::cdna {
namespace {

JAXATOR_SHARED __attribute__((aligned(1024))) u8 memory[kLooseBytes];

/// Out: the type of the result and its companions.
template <class StoredA, class StoredB, class T, class Out>
JAXATOR_DEVICE void multiply(const MatmulParams& p, const LooseStrides& a, const LooseStrides& b) {
  const Place place;
  const TileIndex tile = tile_of_block(block_x(), p);
  Results sums;
  multiply_loose<StoredA, StoredB, T>((Lds)memory, place, tile, p, a, b, sums);
  finish<Out>(sums, 1, (Lds)memory, place, tile, p);
}

}  // namespace

#define JAXATOR_ENTRY(name, StoredA, StoredB, T, Out)                                                              \
  JAXATOR_KERNEL_OF_WAVES(kMatmulThreads, 2) matmul_loose_##name(MatmulParams p, LooseStrides a, LooseStrides b) { \
    multiply<StoredA, StoredB, T, Out>(p, a, b);                                                                   \
  }
JAXATOR_ENTRY(bf16, Bf16, Bf16, Bf16, Bf16)
JAXATOR_ENTRY(f16, F16, F16, F16, F16)
// Products of eight-bit floats are exact in float32, whatever they are multiplied as.
JAXATOR_ENTRY(e4m3_e4m3, E4m3, E4m3, F16, Bf16)
JAXATOR_ENTRY(e4m3_e5m2, E4m3, E5m2, F16, Bf16)
JAXATOR_ENTRY(e5m2_e4m3, E5m2, E4m3, F16, Bf16)
JAXATOR_ENTRY(e5m2_e5m2, E5m2, E5m2, F16, Bf16)

}  // namespace jaxator::cdna
