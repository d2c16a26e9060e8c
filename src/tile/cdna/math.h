/// @file
/// Functions of the transcendental unit, with their errors from the ISA reference, and selections that NaN passes.
#pragma once

#include "src/tile/cdna/element.h"

namespace jaxator::cdna {

/// 2^x, 1 ulp; results below 2^-126 become 0.
JAXATOR_DEVICE float exp2_approx(float x) { return __builtin_amdgcn_exp2f(x); }
/// 1 / x, 1 ulp.
JAXATOR_DEVICE float reciprocal_approx(float x) { return __builtin_amdgcn_rcpf(x); }

JAXATOR_DEVICE float absolute(float x) { return __builtin_fabsf(x); }

/// NaN passes: it is not above the limit. The minimum of two instructions would return the limit instead.
JAXATOR_DEVICE float min_or_nan(float x, float most) { return x > most ? most : x; }
JAXATOR_DEVICE float clamp_or_nan(float x, float magnitude) { return x < -magnitude ? -magnitude : min_or_nan(x, magnitude); }

/// 1 / (1 + e^-x), 0 where that is below 2^-126. Relative error below 6 * 2^-24 for float; for the 16-bit types
/// (4 + 1.5 |x|) * 2^-24, a hundredth of their rounding.
template <class T> JAXATOR_DEVICE float sigmoid(float x) {
  constexpr float kLog2E = 1.44269504f, kLog2ERest = 1.92596299e-8f, kLog2 = 0.693147182f;
  if constexpr (sizeof(T) == 2) return reciprocal_approx(1.0f + exp2_approx(x * -kLog2E));
  // The exponent in two parts: its rounding alone would count |x| * 2^-24. Cut where e^-x is 0 beside 1 or infinite, so that the
  // second part is finite.
  const float y = min_or_nan(-x < -128.0f ? -128.0f : -x, 88.8f), high = y * kLog2E;
  const float low = __builtin_fmaf(y, kLog2ERest, __builtin_fmaf(y, kLog2E, -high));
  return reciprocal_approx(1.0f + exp2_approx(high) * __builtin_fmaf(low, kLog2, 1.0f));
}

}  // namespace jaxator::cdna
