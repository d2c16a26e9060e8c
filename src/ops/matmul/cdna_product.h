/// @file
/// The sum over k of aligned operands, on the target at hand.
#pragma once

#if defined(__gfx950__)
#include "src/ops/matmul/cdna_loop_gfx950.h"
#else
#include "src/ops/matmul/cdna_loop_gfx942.h"
#endif

namespace jaxator::cdna {

inline constexpr u32 kProductBytes = 2 * kBufferBytes;  // of LDS

/// A and B are Operands. k and terms are not 0.
template <class A, class B> struct Product {
  typename A::Stream tiles_a;
  typename B::Stream tiles_b;
  A a;
  B b;
  const Place& place;
  u32 steps;

  JAXATOR_DEVICE Product(Lds lds, const Place& where, const TileIndex& tile, const MatmulParams& p)
      : tiles_a(p.a, tile.batch, tile.row * kMatmulTile, p.m, p.k, p.terms),
        tiles_b(p.b, tile.batch, tile.column * kMatmulTile, p.n, p.k, p.terms),
        a(lds, 0, tiles_a, where, where.row),
        b(lds, kOperandBytes, tiles_b, where, where.column),
        place(where) {
    const u32 all = (p.k + A::Stream::kDepth - 1) / A::Stream::kDepth * p.terms;
    steps = all;
    if (p.parts > 1) {
      const u32 first = static_cast<u32>(u64{all} * tile.part / p.parts),
                end = static_cast<u32>(u64{all} * (tile.part + 1) / p.parts);
      tiles_a.skip(first, p.a), tiles_b.skip(first, p.b);
      steps = end - first;
    }
  }

  JAXATOR_DEVICE void add_to(Results& sums) { multiply_tiles(a, tiles_a, b, tiles_b, steps, place, sums); }
};

}  // namespace jaxator::cdna
