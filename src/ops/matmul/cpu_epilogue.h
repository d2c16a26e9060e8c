/// @file
/// From a register tile of sums to the result: bias, activation, residual in float32, one rounding.
#pragma once

#include <algorithm>

#include "jaxator/matmul.h"
#include "src/tile/cpu/dot.h"
#include "src/tile/cpu/math.h"

namespace jaxator::JAXATOR_ISA {

/// x / (1 + e^-y): 0 where e^-y overflows.
template <class T> JAXATOR_INLINE f32v logistic_times(f32v x, f32v y) { return x / (1.0f + exp_for<T>(vmin(splat(88.8f), -y))); }

/// x * Phi(x), with erfc by Abramowitz and Stegun 7.1.26: 1.5e-7 absolute, and small in the tail, as the exponential is a factor.
template <class T> JAXATOR_INLINE f32v gelu(f32v x) {
  const f32v y = (f32v)((u32v)x & 0x7fffffffu) * splat(0.70710678f), t = 1.0f / (1.0f + splat(0.3275911f) * y);
  f32v p = splat(1.061405429f) * t - splat(1.453152027f);
  p = p * t + splat(1.421413741f);
  p = p * t - splat(0.284496736f);
  p = p * t + splat(0.254829592f);
  const f32v half_tail = 0.5f * p * t * exp_for<T>(-y * y);  // 1 - Phi(|x|)
  return x * select(x < 0.0f, half_tail, 1.0f - half_tail);
}

/// tanh(u) = 2 / (1 + e^-2u) - 1, so the tanh form is x times a logistic function.
template <class T> JAXATOR_INLINE f32v gelu_tanh(f32v x) {
  return logistic_times<T>(x, splat(1.5957691216f) * (x + splat(0.044715f) * x * x * x));
}

template <class T> JAXATOR_INLINE f32v activate(f32v x, Activation activation) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return select(x < 0.0f, f32v{}, x);  // NaN stays
    case Activation::silu:
      return silu<T>(x);
    case Activation::gelu:
      return gelu<T>(x);
    default:
      return gelu_tanh<T>(x);
  }
}

/// Where the results of one matrix go.
template <class T> struct Result {
  const MatmulDesc& desc;
  const float* bias;  // of this matrix; null: none
  const T* residual;  // null: none
  void* out;
  T* preactivation;  // null: none

  Result(const MatmulDesc& d, const MatmulArgs& args, int64_t matrix)
      : desc(d),
        bias(d.has_bias ? args.bias + (d.batch_bias ? matrix * d.n : 0) : nullptr),
        residual(d.has_residual ? static_cast<const T*>(args.residual) + matrix * d.m * d.n : nullptr),
        out(static_cast<char*>(args.out) + matrix * d.m * d.n * size_of(d.out_type)),
        preactivation(d.has_preactivation ? static_cast<T*>(args.preactivation) + matrix * d.m * d.n : nullptr) {}

  /// A register tile of sums, the first at (row, column), of which those inside the matrix are written.
  JAXATOR_INLINE void finish(const Tile& c, int64_t row, int64_t column) const {
    for_tile([&](int r, int v) {
      const int64_t left = std::min<int64_t>(desc.n - column - v * kLanes, kLanes);
      if (row + r < desc.m && left > 0)
        finish_vector(c.at[r][v], (row + r) * desc.n + column + v * kLanes, column + v * kLanes, left);
    });
  }

 private:
  template <class M> static f32v load_some(const M* p, int64_t n) {
    return n == kLanes ? load_f32(p) : load_f32(p, static_cast<int>(n));
  }
  template <class M> static void store_some(M* p, f32v x, int64_t n) {
    n == kLanes ? store_f32(p, x) : store_f32(p, x, static_cast<int>(n));
  }

  /// Not inlined: it would be there for each vector of a tile, with all activations.
  __attribute__((noinline)) void finish_vector(f32v x, int64_t at, int64_t column, int64_t n) const {
    if (bias != nullptr) x += load_some(bias + column, n);
    if (preactivation != nullptr) store_some(preactivation + at, x, n);
    x = activate<T>(x, desc.activation);
    if (residual != nullptr) x += load_some(residual + at, n);
    if (desc.out_type == DType::f32)
      store_some(static_cast<float*>(out) + at, x, n);
    else
      store_some(static_cast<T*>(out) + at, x, n);
  }
};

}  // namespace jaxator::JAXATOR_ISA
