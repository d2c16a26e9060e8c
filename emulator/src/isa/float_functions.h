/// @file
/// Float functions that several instructions share, as the ISA documents define them.
#pragma once

#include <cmath>
#include <limits>

#include "emulator/src/isa/floats.h"

namespace jaxator::emulator {

inline bool is_signalling(float a) { return is_signalling_f32(as_bits(a)); }
inline bool is_signalling(double a) { return std::isnan(a) && (as_bits(a) >> 51 & 1) == 0; }
inline float quiet(float a) { return as_float(as_bits(a) | 0x400000); }
inline double quiet(double a) { return as_double(as_bits(a) | u64{1} << 51); }

/// minNum and maxNum of IEEE 754-2008: a number before a quiet NaN, a signalling NaN quieted, -0 below +0.
template <class T> T minimum_number(T a, T b) {
  if (is_signalling(a)) return quiet(a);
  if (is_signalling(b)) return quiet(b);
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  if (a == 0 && b == 0) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}
template <class T> T maximum_number(T a, T b) {
  if (is_signalling(a)) return quiet(a);
  if (is_signalling(b)) return quiet(b);
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  if (a == 0 && b == 0) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}
template <class T> T median_number(T a, T b, T c) {
  if (std::isnan(a) || std::isnan(b) || std::isnan(c)) return minimum_number(minimum_number(a, b), c);
  const T largest = maximum_number(maximum_number(a, b), c);
  if (largest == a) return maximum_number(b, c);
  if (largest == b) return maximum_number(a, c);
  return maximum_number(a, b);
}

/// minimum and maximum of IEEE 754-2019: a NaN wins.
template <class T> T minimum(T a, T b) { return std::isnan(a) ? quiet(a) : std::isnan(b) ? quiet(b) : minimum_number(a, b); }
template <class T> T maximum(T a, T b) { return std::isnan(a) ? quiet(a) : std::isnan(b) ? quiet(b) : maximum_number(a, b); }

/// Below 1 also where the difference would round to it.
template <class T> T fraction_of(T a, T largest) {
  const T difference = a - std::floor(a);
  return difference > largest ? largest : difference;
}

template <class T> T mantissa_of(T a) {
  int exponent = 0;
  return std::isfinite(a) ? std::frexp(a, &exponent) : a;
}
template <class T> i32 exponent_of(T a) {
  int exponent = 0;
  if (std::isfinite(a)) std::frexp(a, &exponent);
  return exponent;
}

/// Sine and cosine take revolutions, and are defined up to 256 of them.
inline double sine_of_revolutions(double a) {
  if (std::fabs(a) > 256) return 0;
  return std::sin((a - std::floor(a)) * 6.283185307179586476925);
}
inline double cosine_of_revolutions(double a) {
  if (std::fabs(a) > 256) return 1;
  return std::cos((a - std::floor(a)) * 6.283185307179586476925);
}

/// Bits of v_cmp_class: signalling NaN, quiet NaN, -inf, -normal, -denormal, -0, +0, +denormal, +normal, +inf.
template <class T> u32 class_of(T a, bool is_denormal) {
  const bool negative = std::signbit(a);
  if (std::isnan(a)) return is_signalling(a) ? 1 : 2;
  if (std::isinf(a)) return negative ? 4 : 512;
  if (a == 0) return negative ? 32 : 64;
  if (is_denormal) return negative ? 16 : 128;
  return negative ? 8 : 256;
}

}  // namespace jaxator::emulator
