/// @file
/// The Hadamard transform that spreads outliers before quantisation. Float32 arithmetic: the one part of src/numeric that depends
/// on the denormal mode. Host code that promises bits holds a KeepDenormals (denormals.h); device code is compiled without
/// flushing, which is the default of clang for both GPU targets. No product is added to anything here, so contraction can only
/// happen across the edge: code whose own products go into a transform, or that adds to its results, is compiled with
/// -ffp-contract=off.
#pragma once

#include "src/numeric/philox.h"

namespace jaxator::numeric {

/// float32 nearest to 1 / sqrt(n).
template <int n> inline constexpr float kHadamardScale = n == 16 ? 0.25f : 0x1.6a09e6p-3f;

/// Bit i negates element i. The same for every group, device and operand, as the signs of both operands of a product must agree;
/// a transform of 16 takes the low half.
constexpr uint32_t hadamard_signs(Key key) { return draw<32>(key, Stream::hadamard_signs, 0); }

/// x <- H (signs x) / sqrt(n), Sylvester order: a radix-2 butterfly with strides 1, 2, 4, 8(, 16), each sum and difference
/// rounded, then one multiplication. H is symmetric, so without signs the transform is its own inverse up to rounding.
template <int n> constexpr void hadamard(float (&x)[n], uint32_t signs = 0) {
  static_assert(n == 16 || n == 32);
  for (int i = 0; i < n; i++) x[i] = (signs >> i & 1) != 0 ? -x[i] : x[i];
  for (int stride = 1; stride < n; stride *= 2)
    for (int i = 0; i < n; i++) {
      if ((i & stride) != 0) continue;
      const float a = x[i], b = x[i + stride];
      x[i] = a + b;
      x[i + stride] = a - b;
    }
  for (int i = 0; i < n; i++) x[i] *= kHadamardScale<n>;
}

}  // namespace jaxator::numeric
