/// @file
/// Float formats of the instructions, on top of src/numeric. Where an instruction keeps a NaN's payload, it is kept here.
#pragma once

#include <cmath>

#include "emulator/src/common.h"
#include "src/numeric/blocks.h"
#include "src/numeric/convert.h"

namespace jaxator::emulator {

namespace numeric = jaxator::numeric;

inline constexpr numeric::Format kE2m3{2, 3, 1, numeric::Specials::none};  // FP6 of OCP MX
inline constexpr numeric::Format kE3m2{3, 2, 3, numeric::Specials::none};  // BF6

constexpr bool is_nan_f32(u32 bits) { return (bits & 0x7FFFFFFF) > 0x7F800000; }
constexpr bool is_signalling_f32(u32 bits) { return is_nan_f32(bits) && (bits & 0x400000) == 0; }
constexpr bool is_denormal_f32(u32 bits) { return (bits & 0x7F800000) == 0 && (bits & 0x7FFFFF) != 0; }
inline float flush(float x) { return is_denormal_f32(as_bits(x)) ? std::copysign(0.0f, x) : x; }

/// A double without loss for one rounding to a format of at most 22 significant bits: 24 bits, the last of which also stands for
/// everything below.
inline numeric::Number number_of(double value) {
  const u64 bits = as_bits(value), fraction = bits & ((u64{1} << 52) - 1);
  const bool negative = bits >> 63 != 0;
  const int field = static_cast<int>(bits >> 52 & 2047);
  if (field == 2047) return {fraction != 0 ? numeric::Number::Kind::nan : numeric::Number::Kind::infinite, negative, 0, 0};
  const u64 significand = field != 0 ? fraction | u64{1} << 52 : fraction;
  const u32 kept = static_cast<u32>(significand >> 29), below = static_cast<u32>(significand & ((1u << 29) - 1));
  return {numeric::Number::Kind::finite, negative, kept | (below != 0), (field != 0 ? field : 1) - 1075 + 29};
}

inline float from_f16(u32 half) {
  const u32 sign = (half & 0x8000) << 16;
  if ((half & 0x7C00) == 0x7C00 && (half & 0x3FF) != 0) return as_float(sign | 0x7F800000 | (half & 0x3FF) << 13);
  return numeric::to_float<numeric::f16>(static_cast<u16>(half));
}
/// Bits are moved, so that a signalling NaN stays one.
inline double f16_as_double(u32 half) {
  if ((half & 0x7C00) != 0x7C00 || (half & 0x3FF) == 0) return from_f16(half);
  return as_double(u64{half & 0x8000} << 48 | u64{0x7FF} << 52 | u64{half & 0x3FF} << 42);
}
inline u16 to_f16(double value) {
  if (std::isnan(value)) return static_cast<u16>((std::signbit(value) ? 0x8000 : 0) | 0x7E00 | (as_bits(value) >> 42 & 0x3FF));
  return numeric::encode<numeric::f16>(number_of(value), numeric::NearestEven{}, numeric::Overflow::special);
}
/// Rounds towards zero.
struct TowardsZero {
  constexpr u64 operator()(u64 value, int shift) const { return value >> shift; }
};
inline u16 to_f16_towards_zero(float value) {
  if (std::isnan(value)) return to_f16(value);
  if (std::isinf(value)) return static_cast<u16>(std::signbit(value) ? 0xFC00 : 0x7C00);
  return numeric::from_float<numeric::f16>(value, TowardsZero{}, numeric::Overflow::saturate);
}

inline float from_bf16(u32 half) { return as_float((half & 0xFFFF) << 16); }
inline u16 to_bf16(float value) {
  const u32 bits = as_bits(value);
  if (is_nan_f32(bits)) return static_cast<u16>(bits >> 16 | 0x40);
  return numeric::from_float<numeric::bf16>(value);
}

/// The draw's high bits, as many as the places that are dropped, are added below the last place kept, and what is below it
/// dropped.
struct AddAndTruncate {
  u32 draw;
  int dropped;  // places between the source's last and the result's

  constexpr u64 operator()(u64 value, int shift) const {
    // A result with fewer places (a denormal) drops more of the source before the draw is added.
    const int extra = shift > dropped ? shift - dropped : 0, places = shift < dropped ? shift : dropped;
    return ((value >> extra) + (draw >> (32 - dropped) >> (dropped - places))) >> places;
  }
};

/// How many places of x lie below the last place of a result.
template <numeric::Format to> constexpr int places_below(const numeric::Number& x) {
  const int leading = 31 - std::countl_zero(x.significand) + x.exponent;
  return (leading > to.min_exponent() ? leading : to.min_exponent()) - to.mantissa_bits - x.exponent;
}

/// What the conversion instructions do beside rounding: formats without NaN take the largest number for it, and a magnitude that
/// becomes zero keeps its sign unless the format has no -0.
template <numeric::Format to, class Rounding>
constexpr numeric::Code<to> encode_as_hardware(numeric::Number x, Rounding rounding, numeric::Overflow overflow) {
  if constexpr (std::is_same_v<Rounding, AddAndTruncate>) {
    // numeric::encode takes 40 places for all that are more, so more than that are dropped here.
    const int more = x.kind == numeric::Number::Kind::finite && x.significand != 0 ? places_below<to>(x) - 40 : 0;
    if (more > 0) x.significand = more < 32 ? x.significand >> more : 0, x.exponent += more;
  }
  constexpr bool finite_only = to.specials == numeric::Specials::none;
  const u32 sign = finite_only && x.negative ? to.sign_bit() : 0;
  if (finite_only && x.kind == numeric::Number::Kind::nan) return static_cast<numeric::Code<to>>(sign | to.max_code());
  const u32 code = numeric::encode<to>(x, rounding, overflow);
  return static_cast<numeric::Code<to>>(code | sign);
}

inline numeric::Number number_of_f32(u32 bits) { return numeric::decode<numeric::f32>(bits); }

}  // namespace jaxator::emulator
