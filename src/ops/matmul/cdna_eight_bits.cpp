/// @file
/// Products of eight-bit floats whose k is the fast direction in both operands. gfx942 multiplies FNUZ numbers: those of half the
/// values, of which the sums are a quarter. They have no infinities and other NaNs, so a block that meets one in its operands
/// computes its tile again in float16, which has all of OCP's values.
#include "src/ops/matmul/cdna_epilogue.h"
#include "src/ops/matmul/cdna_loose.h"
#include "src/ops/matmul/cdna_product.h"

namespace jaxator::cdna {
namespace {

JAXATOR_SHARED __attribute__((aligned(1024))) u8 memory[kProductBytes];

#if !defined(__gfx950__)
/// Whether it is so in any lane of the block. Uses LDS, which the block is done with before and after.
JAXATOR_DEVICE bool any_of_block(bool in_lane, const Place& place) {
  const bool in_wave = __builtin_amdgcn_ballot_w64(in_lane) != 0;
  if (place.lane == 0) lds_store<u32>((Lds)memory, place.wave * 4, in_wave);
  wait<63, 0>();
  barrier();
  const u32 found = lds_load<u32>((Lds)memory, place.lane % kWaves * 4);
  const bool any = __builtin_amdgcn_ballot_w64(found != 0) != 0;
  barrier();
  return any;
}
#endif

template <class TA, class TB> JAXATOR_DEVICE void multiply(const MatmulParams& p) {
  const Place place;
  const TileIndex tile = tile_of_block(block_x(), p);
  Results sums = {};
  float factor = 1;
  if (p.terms > 0) {
    Product<OperandA<Major::k, TA>, OperandB<Major::k, TB>> product((Lds)memory, place, tile, p);
    product.add_to(sums);
#if !defined(__gfx950__)
    factor = 4;
    if (any_of_block(((product.a.special() | product.b.special()) & kSpecial) != 0, place)) {
      const LooseStrides by_k{.row = p.k, .k = 1};
      multiply_loose<TA, TB, F16>((Lds)memory, place, tile, p, by_k, by_k, sums);
      factor = 1;
    }
#endif
  }
  finish<Bf16>(sums, factor, (Lds)memory, place, tile, p);
}

}  // namespace

#define JAXATOR_ENTRY(name, A, B) \
  JAXATOR_KERNEL_OF_WAVES(kMatmulThreads, 2) matmul_##name(MatmulParams p) { multiply<A, B>(p); }
JAXATOR_ENTRY(e4m3_e4m3, E4m3, E4m3)
JAXATOR_ENTRY(e4m3_e5m2, E4m3, E5m2)
JAXATOR_ENTRY(e5m2_e4m3, E5m2, E4m3)
JAXATOR_ENTRY(e5m2_e5m2, E5m2, E5m2)

}  // namespace jaxator::cdna
