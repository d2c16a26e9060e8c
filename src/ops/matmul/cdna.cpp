/// @file
/// Matrix products on CDNA: a block of eight waves has a tile of 256 x 256 results. Compiled once for each element type and
/// layout of the operands: JAXATOR_A and JAXATOR_B are the directions in which elements are neighbours, JAXATOR_ENTRY is the
/// name.
#include "src/ops/matmul/cdna_epilogue.h"
#include "src/ops/matmul/cdna_product.h"

namespace jaxator::cdna {
namespace {

JAXATOR_SHARED __attribute__((aligned(1024))) u8 memory[kProductBytes];

}  // namespace

JAXATOR_KERNEL_OF_WAVES(kMatmulThreads, 2) JAXATOR_ENTRY(MatmulParams p) {
  using A = OperandA<Major::JAXATOR_A, JAXATOR_T>;
  using B = OperandB<Major::JAXATOR_B, JAXATOR_T>;
  const Place place;
  const TileIndex tile = tile_of_block(block_x(), p);
  Results sums = {};
  if (p.terms > 0) Product<A, B>((Lds)memory, place, tile, p).add_to(sums);
  if (p.parts > 1) return leave_part(sums, place, tile, p);
  finish<JAXATOR_T>(sums, 1, (Lds)memory, place, tile, p);
}

}  // namespace jaxator::cdna
