/// @file
/// Elementary functions of vectors, without tables or branches. Kernels in the 16-bit types take the shorter polynomials:
/// their error is a hundredth of the rounding that follows.
#pragma once

#include "src/tile/cpu/exp.h"
#include "src/tile/cpu/simd.h"

namespace jaxator::JAXATOR_ISA {

template <class T> JAXATOR_INLINE f32v exp_for(f32v x) { return sizeof(T) == 4 ? exp_precise(x) : exp_fast(x); }

/// x * sigmoid(x) = x / (1 + e^-x). Relative error below 3e-7 for float, 4e-6 for the 16-bit types; may be 0 where it is
/// smaller than 2^-120. -0 at -1e30; as jax.nn.silu inf at inf and NaN at -inf.
template <class T> JAXATOR_INLINE f32v silu(f32v x) {
  return x / (1.0f + exp_for<T>(vmin(splat(88.8f), -x)));  // 88.8: the exponential is inf there
}

/// The logistic function of x and of -x (which is 1 - the first, without cancellation), with the error of silu. 0 and 1 at
/// infinity.
struct Sigmoid {
  f32v up, down;
};

template <class T> JAXATOR_INLINE Sigmoid sigmoid(f32v x) {
  const f32v e = exp_for<T>((f32v)((u32v)x | 0x80000000u));  // of -|x|: at most 1
  const f32v large = 1.0f / (1.0f + e), small = e * large;
  const i32v negative = x < 0.0f;
  return {select(negative, small, large), select(negative, large, small)};
}

struct SineCosine {
  f32v sine, cosine;
};

/// Of n * (high[i] + low[i]) quarter turns, i < kLanes. Reduced in float64 with the product exact to 2^-106, so the absolute
/// error is below 1.2e-7 (2 ulp of 1) for every n and |high| that keep the product below 2^51.
JAXATOR_INLINE SineCosine sine_cosine(double n, const double* high, const double* low) {
  constexpr double kRound = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to an integer, left in the low bits
  constexpr int kHalf = kLanes / 2;
  const f64v times = n - f64v{};
  f32h rest[2];
  i32h quarter[2];
#pragma GCC unroll 2
  for (int i = 0; i < 2; i++) {
    const f64v frequency = load<f64v>(high + i * kHalf);
    const f64v shifted = fused(times, frequency, kRound - f64v{});
    const f64v fraction = fused(times, frequency, kRound - shifted) + times * load<f64v>(low + i * kHalf);
    rest[i] = __builtin_convertvector(fraction, f32h);
    quarter[i] = __builtin_convertvector((i64v)shifted, i32h);
  }
  const f32v f = join(rest[0], rest[1]), square = f * f;  // |f| <= 1/2
  const i32v q = join(quarter[0], quarter[1]);

  // Minimax on |f| <= 1/2: 3.3e-9 relative and 5.4e-11 absolute.
  f32v s = splat(-0.00460162665694952f) * square + splat(0.07968002557754517f);
  s = s * square + splat(-0.6459634304046631f);
  s = (s * square + splat(1.5707963705062866f)) * f;
  f32v c = splat(0.0009040156146511436f) * square + splat(-0.02086028642952442f);
  c = c * square + splat(0.25366923213005066f);
  c = c * square + splat(-1.2337005138397217f);
  c = c * square + splat(1.0f);

  const i32v odd = (q & 1) != 0;
  const u32v sine_sign = (u32v)(q & 2) << 30, cosine_sign = (u32v)((q + 1) & 2) << 30;
  return {(f32v)((u32v)select(odd, c, s) ^ sine_sign), (f32v)((u32v)select(odd, s, c) ^ cosine_sign)};
}

}  // namespace jaxator::JAXATOR_ISA
