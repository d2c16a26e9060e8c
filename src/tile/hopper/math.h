/// @file
/// The special-function unit's approximations, with their errors from the PTX reference.
#pragma once

#include "src/tile/hopper/base.h"

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

}  // namespace jaxator::hopper
