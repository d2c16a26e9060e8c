/// @file
/// e^x for x <= 0 (and a little above): what softmax needs. 1 at 0 exactly, 0 below -88, NaN stays NaN.
#pragma once

#include "src/tile/cpu/simd.h"

namespace jaxator::JAXATOR_ISA {

/// 1.5 * 2^23 + 127: adding it rounds to an integer, and leaves the biased exponent of 2^n in the low bits of the sum, so
/// that a shift alone makes 2^n. n = -127 makes +0.
inline constexpr float kRoundToExponent = 12582912.0f + 127.0f;
inline constexpr float kLog2E = 1.44269504f;

/// Relative error 3.6e-6 + 2^-24 |x|, a hundredth of what float16's rounding needs: 2^n * p(f) with a minimax p of degree 4 on
/// |f| <= 1/2.
JAXATOR_INLINE f32v exp_fast(f32v x) {
  x = vmax(splat(-88.03f), x);  // in this order NaN passes
  const f32v shifted = x * splat(kLog2E) + splat(kRoundToExponent);
  const f32v f = x * splat(kLog2E) - (shifted - splat(kRoundToExponent));
  f32v p = splat(9.782947993e-03f) * f + splat(5.597698473e-02f);
  p = p * f + splat(2.402071025e-01f);
  p = p * f + splat(6.931135900e-01f);
  p = p * f + splat(1.0f);
  return p * (f32v)((u32v)shifted << 23);
}

/// Relative error below 2e-7: x - n log 2 in two steps, then degree 6.
JAXATOR_INLINE f32v exp_precise(f32v x) {
  x = vmax(splat(-88.03f), x);
  const f32v shifted = x * splat(kLog2E) + splat(kRoundToExponent);
  const f32v n = shifted - splat(kRoundToExponent);
  const f32v r = (x - n * splat(0.693359375f)) - n * splat(-2.12194440e-4f);
  f32v p = splat(1.406127672e-03f) * r + splat(8.379020735e-03f);
  p = p * r + splat(4.166477650e-02f);
  p = p * r + splat(1.666636531e-01f);
  p = p * r + splat(5.000000435e-01f);
  p = p * r + splat(1.000000050f);
  p = p * r + splat(1.0f);
  return p * (f32v)((u32v)shifted << 23);
}

}  // namespace jaxator::JAXATOR_ISA
