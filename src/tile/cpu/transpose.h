/// @file
/// Transposition of a square of 32-bit words in registers.
#pragma once

#include <utility>

#include "src/tile/cpu/simd.h"

namespace jaxator::JAXATOR_ISA {

/// Lanes of the first result where bit `step` of the lane is 0 come from a, else from b moved up by step; the second result
/// is the other half.
template <int step, int... lane> JAXATOR_INLINE void swap_blocks(u32v& a, u32v& b, std::integer_sequence<int, lane...>) {
  const u32v low = __builtin_shufflevector(a, b, ((lane & step) ? kLanes + lane - step : lane)...);
  b = __builtin_shufflevector(a, b, ((lane & step) ? kLanes + lane : lane + step)...);
  a = low;
}

template <int step> JAXATOR_INLINE void transpose_step(u32v (&rows)[kLanes]) {
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; i++)
    if ((i & step) == 0) swap_blocks<step>(rows[i], rows[i + step], std::make_integer_sequence<int, kLanes>());
}

/// log2(kLanes) rounds of two-operand shuffles: 4 (3) for each vector.
JAXATOR_INLINE void transpose(u32v (&rows)[kLanes]) {
  if constexpr (kLanes == 16) transpose_step<8>(rows);
  transpose_step<4>(rows);
  transpose_step<2>(rows);
  transpose_step<1>(rows);
}

}  // namespace jaxator::JAXATOR_ISA
