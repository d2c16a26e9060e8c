/// @file
/// The special-function unit's approximations, with their errors from the PTX reference.
#pragma once

#include "src/tile/hopper/element.h"

namespace jaxator::hopper {

/// 2^x, 2 ulp; results below 2^-126 become 0.
JAXATOR_DEVICE float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/// log2(x), 2^-22 absolute in [0.5, 2], else 2 ulp.
JAXATOR_DEVICE float log2_approx(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/// 1 / sqrt(x), 2^-22.9 relative.
JAXATOR_DEVICE float rsqrt_approx(float x) {
  float y;
  asm("rsqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/// 1 / x, 1 ulp.
JAXATOR_DEVICE float reciprocal_approx(float x) {
  float y;
  asm("rcp.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// 1 / x, 1 ulp; results below 2^-126 become 0.
JAXATOR_DEVICE float reciprocal_flushed(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

JAXATOR_DEVICE float absolute(float x) { return bits_as<float>(bits_as<u32>(x) & 0x7fffffffu); }

/// NaN passes.
JAXATOR_DEVICE float min_or_nan(float x, float most) {
  float y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(x), "f"(most));
  return y;
}
JAXATOR_DEVICE float clamp_or_nan(float x, float magnitude) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(min_or_nan(x, magnitude)), "f"(-magnitude));
  return y;
}

/// 1 / (1 + e^-x), 0 where that is below 2^-126. Relative error below 9.6 * 2^-24 for float, 6 of them the unit's own at worst;
/// for the 16-bit types (8 + 1.5 |x|) * 2^-24, a hundredth of their rounding.
template <class T> JAXATOR_DEVICE float sigmoid(float x) {
  constexpr float kLog2E = 1.44269504f, kLog2ERest = 1.92596299e-8f, kLog2 = 0.693147182f;
  if constexpr (sizeof(T) == 2) return reciprocal_flushed(1.0f + exp2_approx(x * -kLog2E));
  // The exponent in two parts: its rounding alone would count |x| * 2^-24. Cut where e^-x is 0 beside 1 or infinite, so that the
  // second part is finite.
  const float y = __builtin_fminf(__builtin_fmaxf(-x, -128.0f), 88.8f), high = y * kLog2E;
  const float low = __builtin_fmaf(y, kLog2ERest, __builtin_fmaf(y, kLog2E, -high));
  return reciprocal_flushed(1.0f + exp2_approx(high) * __builtin_fmaf(low, kLog2, 1.0f));
}

}  // namespace jaxator::hopper
