/// @file
/// Exact decoding and correctly rounded encoding. All of it is integer arithmetic: neither the thread's denormal mode, nor
/// contraction, nor -ffast-math, nor the target can change a bit. These are the scalar forms that define the result; vector
/// kernels must equal them.
#pragma once

#include "src/numeric/format.h"

namespace jaxator::numeric {

/// A decoded value: (-1)^negative * significand * 2^exponent, or a special.
struct Number {
  enum class Kind : uint8_t { finite, infinite, nan };
  Kind kind;
  bool negative;
  uint32_t significand;  // below 2^24
  int exponent;
};

/// What becomes of a value past the largest finite number, rounding included (infinity is such a value).
enum class Overflow : uint8_t {
  saturate,  // the largest finite number (OCP OFP8's saturating conversion)
  special,   // infinity where the format has it, else NaN, else the largest finite number (OFP8's non-saturating one; ml_dtypes)
};

/// value / 2^shift to the nearest integer, ties to even. 0 <= shift < 64.
constexpr uint64_t shift_nearest_even(uint64_t value, int shift) {
  if (shift == 0) return value;
  const uint64_t kept = value >> shift, rest = value - (kept << shift), half = uint64_t{1} << (shift - 1);
  return kept + (rest > half || (rest == half && (kept & 1) != 0));
}

struct NearestEven {
  constexpr uint64_t operator()(uint64_t value, int shift) const { return shift_nearest_even(value, shift); }
};

/// Up with the probability of the distance to the lower neighbour, itself rounded to a 256th of a step. Unbiased to 2^-9 of a
/// step.
struct Stochastic {
  uint32_t draw;  // uniform in 0..255

  constexpr uint64_t operator()(uint64_t value, int shift) const {
    const uint64_t kept = value >> shift, rest = value - (kept << shift);
    return kept + (draw < shift_nearest_even(rest << 8, shift));
  }
};

template <Format from> constexpr Number decode(Code<from> code) {
  const uint32_t magnitude = code & (from.sign_bit() - 1), hidden = uint32_t{1} << from.mantissa_bits;
  const bool negative = (code & from.sign_bit()) != 0;
  if (from.specials == Specials::fnuz && code == from.sign_bit()) return {Number::Kind::nan, false, 0, 0};
  if (magnitude > from.max_code()) {
    const bool infinite = from.has_infinity() && magnitude == from.max_code() + 1;
    return {infinite ? Number::Kind::infinite : Number::Kind::nan, negative, 0, 0};
  }
  const int field = static_cast<int>(magnitude >> from.mantissa_bits);
  const uint32_t fraction = magnitude & (hidden - 1);
  return {Number::Kind::finite, negative, field != 0 ? fraction | hidden : fraction,
          (field != 0 ? field : 1) - from.bias - from.mantissa_bits};
}

/// The canonical quiet NaN: the sign is kept, a payload is not. +0 in a format without NaN.
template <Format to> constexpr Code<to> nan_code(bool negative) {
  const uint32_t sign = negative ? to.sign_bit() : 0;
  switch (to.specials) {
    case Specials::ieee:
      return static_cast<Code<to>>(sign | (to.max_code() + 1) | uint32_t{1} << (to.mantissa_bits - 1));
    case Specials::nan_only:
      return static_cast<Code<to>>(sign | (to.max_code() + 1));
    case Specials::fnuz:
      return static_cast<Code<to>>(to.sign_bit());
    default:
      return 0;
  }
}

template <Format to> constexpr Code<to> overflow_code(bool negative, Overflow overflow) {
  const uint32_t sign = negative ? to.sign_bit() : 0;
  if (overflow == Overflow::saturate || to.specials == Specials::none) return static_cast<Code<to>>(sign | to.max_code());
  return to.has_infinity() ? static_cast<Code<to>>(sign | (to.max_code() + 1)) : nan_code<to>(negative);
}

/// One rounding, on the grid that continues past the largest number with its last step. A magnitude that becomes zero keeps its
/// sign where the format has infinities or NaN beside -0, and is +0 otherwise: E2M1's code 8 (-0) is never produced.
template <Format to, class Rounding> constexpr Code<to> encode(const Number& x, Rounding rounding, Overflow overflow) {
  if (x.kind == Number::Kind::nan) return nan_code<to>(x.negative);
  if (x.kind == Number::Kind::infinite) return overflow_code<to>(x.negative, overflow);

  const bool signed_zero = to.specials == Specials::ieee || to.specials == Specials::nan_only;
  const uint32_t sign = x.negative ? to.sign_bit() : 0;
  if (x.significand == 0) return static_cast<Code<to>>(signed_zero ? sign : 0);
  const int leading = 31 - __builtin_clz(x.significand) + x.exponent;  // floor(log2 |x|)
  if (leading > to.max_exponent()) return overflow_code<to>(x.negative, overflow);

  // The last place kept is worth 2^step; denormals share the step of the smallest normal numbers.
  const int lowest = to.min_exponent() - to.mantissa_bits;
  const int step = leading > to.min_exponent() ? leading - to.mantissa_bits : lowest, shift = step - x.exponent;
  // Past 40 places even 255/256 of the significand rounds to zero, so 40 stand for more.
  const uint64_t steps = shift > 0 ? rounding(x.significand, shift < 40 ? shift : 40) : uint64_t{x.significand} << -shift;
  // The hidden bit of `steps` adds the 1 that exponent fields of normal numbers start from, and so does a carry out of the
  // mantissa.
  const uint32_t code = (static_cast<uint32_t>(step - lowest) << to.mantissa_bits) + static_cast<uint32_t>(steps);
  if (code > to.max_code()) return overflow_code<to>(x.negative, overflow);
  return static_cast<Code<to>>(code != 0 || signed_zero ? sign | code : 0);
}

template <Format from, Format to, class Rounding = NearestEven>
constexpr Code<to> convert(Code<from> code, Rounding rounding = {}, Overflow overflow = Overflow::special) {
  return encode<to>(decode<from>(code), rounding, overflow);
}

/// The same for values that are float in the program. Bits pass through unchanged: a denormal is never touched by arithmetic.
template <Format from> constexpr float to_float(Code<from> code) { return __builtin_bit_cast(float, convert<from, f32>(code)); }
template <Format to, class Rounding = NearestEven>
constexpr Code<to> from_float(float x, Rounding rounding = {}, Overflow overflow = Overflow::special) {
  return convert<f32, to>(__builtin_bit_cast(uint32_t, x), rounding, overflow);
}

/// Codes of `to` for every code of an 8-bit or 4-bit format.
template <Format from, Format to> struct DecodeTable {
  static constexpr int size = 1 << from.bits();
  Code<to> at[size];
  constexpr Code<to> operator[](int code) const { return at[code]; }
};
template <Format from, Format to> constexpr DecodeTable<from, to> make_decode_table() {
  static_assert(from.bits() <= 8);
  DecodeTable<from, to> table{};
  for (int code = 0; code < table.size; code++) table.at[code] = convert<from, to>(static_cast<Code<from>>(code));
  return table;
}
template <Format from, Format to> inline constexpr DecodeTable<from, to> decode_table = make_decode_table<from, to>();

/// Twice the value of each E2M1 code is an integer: what int8 products take.
struct DoubledTable {
  int8_t at[16];
};
inline constexpr DoubledTable e2m1_doubled{{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}};

}  // namespace jaxator::numeric
