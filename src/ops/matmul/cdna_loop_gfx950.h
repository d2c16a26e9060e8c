/// @file
/// The sum over k on gfx950: eight waves in ping-pong. Waves 4 to 7 run one barrier behind: while one half multiplies with
/// priority, the other half, on the same SIMDs, reads its next fragments and begins fetches. A wave's results are taken in
/// quarters, in an order in which each quarter needs one new half operand.
#pragma once

#include "src/ops/matmul/cdna_operand_gfx950.h"

namespace jaxator::cdna {

inline constexpr int kHalfRows = kBlockRows / 2, kHalfColumns = kBlockColumns / 2;

template <Major major, class T> using OperandA = Operand<major, T, kHalfRows>;
template <Major major, class T> using OperandB = Operand<major, T, kHalfColumns>;

/// Of a quarter.
template <class T> inline constexpr int kProducts = kHalfRows * kHalfColumns * (kEightBits<T> ? 1 : kReads);

template <class A, class B, int row, int column>
JAXATOR_DEVICE void multiply_quarter(const Fragments<kHalfRows>& a, const Fragments<kHalfColumns>& b, Results& sums) {
  constexpr int kParts = kEightBits<A> ? 1 : kReads;
#pragma unroll
  for (int k = 0; k < kParts; k++)
#pragma unroll
    for (int i = 0; i < kHalfRows; i++)
#pragma unroll
      for (int j = 0; j < kHalfColumns; j++) {
        Accumulator<16>& sum = sums[row * kHalfRows + i][column * kHalfColumns + j];
        if constexpr (kEightBits<A>)
          sum = multiply_add_8<16, B, A>(fragment_of(b[0][j], b[1][j]), fragment_of(a[0][i], a[1][i]), sum);
        else
          sum = multiply_add<16, A>(b[k][j], a[k][i], sum);
      }
}

/// What was read arrives, and so does the half operand that is read next: of what was fetched since, six halves may be under way,
/// each of which was given six phases of about 500 clocks. Then all waves that are at a reading phase become the multiplying
/// ones.
template <class Multiply> JAXATOR_DEVICE void multiplying_phase(Multiply&& multiply) {
  order();
  wait<6 * kFetches, 0>();
  barrier();
  priority<1>();
  multiply();
  order();
  priority<0>();
  barrier();
}

/// sums += a b over `steps` (at least one) tiles along k. A and B are Operands.
template <class A, class B>
JAXATOR_DEVICE void multiply_tiles(A& a, typename A::Stream& tiles_a, B& b, typename B::Stream& tiles_b, u32 steps,
                                   const Place& place, Results& sums) {
  using TA = typename A::Element;
  using TB = typename B::Element;
  Fragments<kHalfRows> a0, a1;
  Fragments<kHalfColumns> b0, b1;
  const auto multiply_and_find = [&]<int row, int column>(auto& a_part, auto& b_part, auto& operand, auto& tiles)
                                     __attribute__((always_inline)) {
                                       operand.find(tiles);
                                       multiply_quarter<TA, TB, row, column>(a_part, b_part, sums);
                                       interleave<Issue::mfma, kProducts<TA>, Issue::scalar, 2 * kProducts<TA>>();
                                     };
  // Two tiles, in the order in which the loop fetches their halves.
#pragma unroll
  for (int tile = 0; tile < 2; tile++) {
    a.find(tiles_a), b.find(tiles_b);
    a.template fetch<0>(), b.template fetch<0>(), b.template fetch<1>(), a.template fetch<1>();
  }
  a.find(tiles_a);
  wait<6 * kFetches>();  // the first halves of the first tile are there
  barrier();
  a.template read<0>(a0);
  wait<63, 0>();
  barrier();  // and free for the third tile
  const bool behind = place.wave >= kWaves / 2;
  if (behind) barrier();
  do {
    b.template read<0>(b0);
    a.template fetch<0>();
    multiplying_phase([&] { multiply_and_find.template operator()<0, 0>(a0, b0, b, tiles_b); });
    b.template read<1>(b1);
    b.template fetch<0>();
    multiplying_phase([&] { multiply_quarter<TA, TB, 0, 1>(a0, b1, sums); });
    a.template read<1>(a1);
    b.template fetch<1>();
    a.turn(), b.turn();
    multiplying_phase([&] { multiply_quarter<TA, TB, 1, 1>(a1, b1, sums); });
    a.template read<0>(a0);  // of the next tile
    a.template fetch<1>();
    multiplying_phase([&] { multiply_and_find.template operator()<1, 0>(a1, b0, a, tiles_a); });
  } while (--steps > 0);
  if (!behind) barrier();
  // Fetches past the last tile end before the block's LDS is used for something else.
  wait<0, 0>();
  barrier();
}

}  // namespace jaxator::cdna
