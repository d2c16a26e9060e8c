/// @file
/// Activations of one thread's values in float32.
#pragma once

#include "src/ops/matmul/hopper.h"
#include "src/tile/hopper/math.h"

namespace jaxator::hopper {

inline constexpr float kLog2E = 1.44269504f;

/// x / (1 + e^-y) for two pairs. One reciprocal serves both: the special-function unit has 16 results a cycle, and with two
/// reciprocals it, not the other arithmetic, was the limit. e^-y is cut at 2^63, so that the product of both is finite.
JAXATOR_DEVICE void logistic_times(float (&x)[2], const float (&y)[2]) {
  float d[2];
#pragma unroll
  for (int i = 0; i < 2; i++) d[i] = 1.0f + exp2_approx(__builtin_fminf(y[i] * -kLog2E, 63.0f));
  const float r = reciprocal_approx(d[0] * d[1]);
  x[0] *= r * d[1], x[1] *= r * d[0];
}

/// x * Phi(x), with erfc by Abramowitz and Stegun 7.1.26: 1.5e-7 absolute, and small in the tail, as the exponential is a factor.
JAXATOR_DEVICE float gelu(float x) {
  const float y = __builtin_fabsf(x) * 0.70710678f, t = reciprocal_approx(1.0f + 0.3275911f * y);
  float p = 1.061405429f * t - 1.453152027f;
  p = p * t + 1.421413741f;
  p = p * t - 0.284496736f;
  p = p * t + 0.254829592f;
  const float half_tail = 0.5f * p * t * exp2_approx(y * y * -kLog2E);  // 1 - Phi(|x|)
  return x * (x < 0 ? half_tail : 1.0f - half_tail);
}

/// Twice the argument of tanh in gelu's tanh form. tanh(u) = 2 / (1 + e^-2u) - 1, so that form is x times a logistic function.
JAXATOR_DEVICE float gelu_tanh_argument(float x) { return 1.5957691216f * (x + 0.044715f * x * x * x); }

template <int N> JAXATOR_DEVICE void activate(float (&x)[N], int activation) {
  if (activation == kNone) return;
  if (activation == kRelu) {
#pragma unroll
    for (int i = 0; i < N; i++) x[i] = x[i] < 0 ? 0.0f : x[i];  // NaN stays
  } else if (activation == kGelu) {
#pragma unroll
    for (int i = 0; i < N; i++) x[i] = gelu(x[i]);
  } else {
    const bool silu = activation == kSilu;
#pragma unroll
    for (int i = 0; i < N; i += 2) {
      float pair[2] = {x[i], x[i + 1]};
      logistic_times(pair, {silu ? x[i] : gelu_tanh_argument(x[i]), silu ? x[i + 1] : gelu_tanh_argument(x[i + 1])});
      x[i] = pair[0], x[i + 1] = pair[1];
    }
  }
}

}  // namespace jaxator::hopper
