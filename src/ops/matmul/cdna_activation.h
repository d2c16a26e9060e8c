/// @file
/// Activations of one lane's values in float32.
#pragma once

#include "src/ops/matmul/cdna.h"
#include "src/tile/cdna/element.h"

namespace jaxator::cdna {

inline constexpr float kLog2E = 1.44269504f;

/// 2^x, 1 ulp; results below 2^-126 become 0.
JAXATOR_DEVICE float exp2_approx(float x) { return __builtin_amdgcn_exp2f(x); }
/// 1 / x, 1 ulp.
JAXATOR_DEVICE float reciprocal_approx(float x) { return __builtin_amdgcn_rcpf(x); }

/// x / (1 + e^-y): 0 where e^-y overflows.
JAXATOR_DEVICE float logistic_times(float x, float y) { return x * reciprocal_approx(1.0f + exp2_approx(y * -kLog2E)); }

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

/// tanh(u) = 2 / (1 + e^-2u) - 1, so the tanh form is x times a logistic function.
JAXATOR_DEVICE float gelu_tanh(float x) { return logistic_times(x, 1.5957691216f * (x + 0.044715f * x * x * x)); }

template <int N> JAXATOR_DEVICE void activate(float (&x)[N], int activation) {
  if (activation == kNone) return;
  if (activation == kRelu) {
#pragma unroll
    for (int i = 0; i < N; i++) x[i] = x[i] < 0 ? 0.0f : x[i];  // NaN stays
  } else if (activation == kSilu) {
#pragma unroll
    for (int i = 0; i < N; i++) x[i] = logistic_times(x[i], x[i]);
  } else if (activation == kGelu) {
#pragma unroll
    for (int i = 0; i < N; i++) x[i] = gelu(x[i]);
  } else {
#pragma unroll
    for (int i = 0; i < N; i++) x[i] = gelu_tanh(x[i]);
  }
}

}  // namespace jaxator::cdna
