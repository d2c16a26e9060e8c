/// @file
/// The sum over k on gfx942: two buffers, one barrier a tile. While a tile's left half is multiplied the next one is written to
/// LDS and the one after it is loaded; after the barrier the next fragments are read while the right half is multiplied.
#pragma once

#include "src/ops/matmul/cdna_operand_gfx942.h"

namespace jaxator::cdna {

template <class A, class B, int column, int columns>
JAXATOR_DEVICE void multiply_columns(const Fragments<kBlockRows>& a, const Fragments<kBlockColumns>& b, Results& sums) {
#pragma unroll
  for (int i = 0; i < kBlockRows; i++)
#pragma unroll
    for (int j = column; j < column + columns; j++) {
      if constexpr (kEightBits<A>)
        sums[i][j] = multiply_add_8<16, B, A>(b[j], a[i], sums[i][j]);
      else
        sums[i][j] = multiply_add<16, A>(b[j], a[i], sums[i][j]);
    }
}

template <Major major, class T> using OperandA = Operand<major, T>;
template <Major major, class T> using OperandB = Operand<major, T>;

/// sums += a b over `steps` (at least one) tiles along k. A and B are Operands.
template <class A, class B>
JAXATOR_DEVICE void multiply_tiles(A& a, typename A::Stream& tiles_a, B& b, typename B::Stream& tiles_b, u32 steps, const Place&,
                                   Results& sums) {
  using TA = typename A::Element;
  using TB = typename B::Element;
  constexpr int kAccesses = A::kAccesses + B::kAccesses;
  constexpr int kHalf = kBlockColumns / 2, kProducts = kBlockRows * kHalf * 2;  // of half a tile: two a fragment
  Fragments<kBlockRows> fragments_a[2];
  Fragments<kBlockColumns> fragments_b[2];
  a.fetch(tiles_a), b.fetch(tiles_b);
  a.put(), b.put();
  a.fetch(tiles_a), b.fetch(tiles_b);
  wait<63, 0>();
  barrier();
  a.template read<0, kBlockRows>(fragments_a[0]), b.template read<0, kBlockColumns>(fragments_b[0]);

  auto step = [&]<int now>() __attribute__((always_inline)) {
    a.put(), b.put();
    a.fetch(tiles_a), b.fetch(tiles_b);
    a.turn(), b.turn();
    multiply_columns<TA, TB, 0, kHalf>(fragments_a[now], fragments_b[now], sums);
    if constexpr (kEightBits<TA>) {
      // The 18 instructions that make a vector FNUZ go between products, two a product: more of them, from the SIMD's two waves,
      // would hold up the matrix core. So would the scalar ones of the next tile, in one piece.
      constexpr int kConverts = 18, kOfVector = kProducts / kAccesses;
      repeat<kAccesses>([]<int>() __attribute__((always_inline)) {
        repeat<kOfVector>([]<int i>() __attribute__((always_inline)) {
          issue<Issue::mfma, 1>();
          issue<Issue::vector, (i + 1) * kConverts / kOfVector - i * kConverts / kOfVector>();
          issue<Issue::scalar, 1>();
        });
        issue<Issue::lds_write, 1>();
        issue<Issue::memory, 1>();
      });
    } else {
      interleave<Issue::lds_write, kAccesses, Issue::mfma, kProducts / 2>();
      interleave<Issue::memory, kAccesses, Issue::mfma, kProducts / 2>();
    }
    order();
    wait<63, 0>();
    barrier();
    a.template read<0, kBlockRows>(fragments_a[1 - now]), b.template read<0, kBlockColumns>(fragments_b[1 - now]);
    multiply_columns<TA, TB, kHalf, kHalf>(fragments_a[now], fragments_b[now], sums);
    interleave<Issue::lds_read, kBlockRows + kBlockColumns, Issue::mfma, kProducts>();
    order();
  };
  for (; steps >= 2; steps -= 2) {
    step.template operator()<0>();
    step.template operator()<1>();
  }
  if (steps > 0) step.template operator()<0>();
  // The last reads, of a tile past the end, arrive before the block's LDS is used for something else.
  wait<0, 0>();
  barrier();
}

}  // namespace jaxator::cdna
