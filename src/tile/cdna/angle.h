/// @file
/// Sine and cosine of large multiples of a frequency. The hardware's sine loses its accuracy beyond a few turns; the reduction is
/// exact instead, in float64, which has half the rate of float32 on these chips.
#pragma once

#include "src/tile/cdna/element.h"

namespace jaxator::cdna {

/// A sum of two float64: 106 bits.
struct Double2 {
  double high, low;
};

JAXATOR_DEVICE Double2 product(Double2 a, Double2 b) {
  // Contracted into the additions that follow, the product would count its own rounding twice.
#pragma clang fp contract(off)
  const double high = a.high * b.high;
  const double rest = __builtin_fma(a.high, b.low, __builtin_fma(a.low, b.high, __builtin_fma(a.high, b.high, -high)));
  const double sum = high + rest;
  return {sum, rest - (sum - high)};
}

struct SineCosine {
  float sine, cosine;
};

/// Of n * frequency quarter turns. The product is exact to 2^-106, so the absolute error is below 1.2e-7 (2 ulp of 1) for every n
/// and frequency that keep it below 2^51.
JAXATOR_DEVICE SineCosine sine_cosine(int n, Double2 frequency) {
  constexpr double kRound = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to an integer, left in the low bits
  const double times = n, shifted = __builtin_fma(times, frequency.high, kRound);
  const double fraction = __builtin_fma(times, frequency.low, __builtin_fma(times, frequency.high, kRound - shifted));
  const float f = static_cast<float>(fraction), square = f * f;  // |f| <= 1/2
  const u32 quarter = static_cast<u32>(bits_as<u64>(shifted));

  // Minimax on |f| <= 1/2: 3.3e-9 relative and 5.4e-11 absolute.
  float s = __builtin_fmaf(-0.00460162665694952f, square, 0.07968002557754517f);
  s = __builtin_fmaf(s, square, -0.6459634304046631f);
  s = __builtin_fmaf(s, square, 1.5707963705062866f) * f;
  float c = __builtin_fmaf(0.0009040156146511436f, square, -0.02086028642952442f);
  c = __builtin_fmaf(c, square, 0.25366923213005066f);
  c = __builtin_fmaf(c, square, -1.2337005138397217f);
  c = __builtin_fmaf(c, square, 1.0f);

  const bool odd = quarter & 1;
  const u32 sine_sign = (quarter & 2) << 30, cosine_sign = ((quarter + 1) & 2) << 30;
  return {bits_as<float>(bits_as<u32>(odd ? c : s) ^ sine_sign), bits_as<float>(bits_as<u32>(odd ? s : c) ^ cosine_sign)};
}

}  // namespace jaxator::cdna
