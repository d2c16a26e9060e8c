/// @file
/// OCP Microscaling v1.0: blocks of 32 elements that share a power of two, in E8M0. Integer arithmetic only, as in convert.h.
#pragma once

#include "src/numeric/convert.h"
#include "src/numeric/philox.h"

namespace jaxator::numeric {

inline constexpr int kBlock = 32;
/// E8M0 has no sign, no zero and no infinity: byte b is 2^(b - 127).
inline constexpr int kScaleBias = 127;
inline constexpr uint8_t kScaleMax = 254, kScaleNan = 255;

/// As float32 bits. 2^-127 is a float32 denormal.
constexpr uint32_t decode_e8m0(uint8_t scale) {
  if (scale == kScaleNan) return nan_code<f32>(false);
  return scale == 0 ? uint32_t{1} << 22 : static_cast<uint32_t>(scale) << 23;
}

/// The nearest power of two. Every significand of E8M0 is the odd number 1, so ties to even go up, and positive values below
/// 2^-127 become it. NaN and negative numbers are NaN. With `saturate` zero becomes 2^-127 and values past 2^127 become it; with
/// `special` both are NaN, as in ml_dtypes.
constexpr uint8_t encode_e8m0(uint32_t float_bits, Overflow overflow) {
  const Number x = decode<f32>(float_bits);
  const bool zero = x.kind == Number::Kind::finite && x.significand == 0, saturate = overflow == Overflow::saturate;
  if (zero) return saturate ? 0 : kScaleNan;
  if (x.kind == Number::Kind::nan || x.negative) return kScaleNan;
  if (x.kind == Number::Kind::infinite) return saturate ? kScaleMax : kScaleNan;
  const uint32_t field = float_bits >> 23;
  if (field == 0) return float_bits >= 3u << 21;  // 3 * 2^-128 is the tie between 2^-127 and 2^-126
  const uint32_t rounded = (float_bits + (uint32_t{1} << 22)) >> 23;
  return static_cast<uint8_t>(rounded <= kScaleMax ? rounded : saturate ? kScaleMax : kScaleNan);
}

/// How a block's largest magnitude picks its scale 2^(E - emax), E being the exponent of the float32 with bits amax + c.
enum class ScaleMode : uint8_t {
  floor,  // c = 0 (OCP); clips up to 25 % (E2M1)
  even,   // amax rounded half up to the element's mantissa; clips up to 14 % (E2M1)
  rceil,  // the smallest scale that never clips
};

template <Format element> constexpr uint32_t scale_rounding(ScaleMode mode) {
  constexpr int dropped = f32.mantissa_bits - element.mantissa_bits;
  constexpr uint32_t max_mantissa = element.max_code() & ((uint32_t{1} << element.mantissa_bits) - 1);
  switch (mode) {
    case ScaleMode::floor:
      return 0;
    case ScaleMode::even:
      return uint32_t{1} << (dropped - 1);
    default:
      return (uint32_t{1} << f32.mantissa_bits) - 1 - (max_mantissa << dropped);
  }
}

/// Scale byte for a block whose largest magnitude has these float32 bits (sign clear; infinity or NaN if the block has one).
/// Zero: 127.
template <Format element> constexpr uint8_t block_scale(uint32_t amax_bits, ScaleMode mode) {
  if (amax_bits > f32.max_code()) return kScaleNan;
  if (amax_bits == 0) return kScaleBias;
  const int byte = static_cast<int>((amax_bits + scale_rounding<element>(mode)) >> f32.mantissa_bits) - element.max_exponent();
  return static_cast<uint8_t>(byte < 0 ? 0 : byte > kScaleMax ? kScaleMax : byte);
}

/// Float32 bits of the largest magnitude; NaN counts as larger than infinity.
template <Format source> constexpr uint32_t block_amax(const Code<source>* x, int64_t stride, int count = kBlock) {
  uint32_t largest = 0;
  for (int i = 0; i < count; i++) {
    const uint32_t magnitude = x[i * stride] & (source.sign_bit() - 1);
    largest = magnitude > largest ? magnitude : largest;
  }
  return convert<source, f32>(static_cast<Code<source>>(largest));
}

/// Rounding of element i of a block: the same for all, or by each element's own draw.
struct AllNearestEven {
  constexpr NearestEven operator()(int) const { return {}; }
};
struct KeyedStochastic {
  Key key;
  Stream stream;
  uint64_t first_index;   // of element 0 in the global logical array
  uint64_t index_stride;  // from one element of the block to the next
  constexpr Stochastic operator()(int i) const {
    return {draw<8>(key, stream, first_index + static_cast<uint64_t>(i) * index_stride)};
  }
};

template <Format element> inline constexpr int kElementsPerByte = element.bits() <= 4 ? 2 : 1;
template <Format element> inline constexpr int kBlockBytes = kBlock / kElementsPerByte<element>;

/// x / scale, rounded once and saturated.
template <Format element, class Rounding> constexpr Code<element> encode_scaled(Number x, uint8_t scale, Rounding rounding) {
  x.exponent -= scale - kScaleBias;
  return encode<element>(x, rounding, Overflow::saturate);
}

/// code * scale, which is exact before the target's own rounding. NaN for a NaN scale.
template <Format element, Format to> constexpr Code<to> decode_scaled(Code<element> code, uint8_t scale) {
  if (scale == kScaleNan) return nan_code<to>(false);
  Number x = decode<element>(code);
  x.exponent += scale - kScaleBias;
  return encode<to>(x, NearestEven{}, Overflow::special);
}

/// The 32 elements with a given scale; two 4-bit codes a byte, even index in the low nibble. All codes are 0 where the scale is
/// NaN.
template <Format element, Format source, class RoundingOf>
constexpr void quantise_elements(const Code<source>* x, int64_t stride, uint8_t scale, RoundingOf rounding_of, uint8_t* codes) {
  static_assert(element.bits() <= 8);
  for (int byte = 0; byte < kBlockBytes<element>; byte++) {
    uint32_t packed = 0;
    for (int part = 0; part < kElementsPerByte<element> && scale != kScaleNan; part++) {
      const int i = byte * kElementsPerByte<element> + part;
      const uint32_t code = encode_scaled<element>(decode<source>(x[i * stride]), scale, rounding_of(i));
      packed |= code << (part * 4);
    }
    codes[byte] = static_cast<uint8_t>(packed);
  }
}

/// Largest magnitude, scale, elements. Element i is x[i * stride]. Returns the scale byte; writes kBlockBytes<element> bytes.
template <Format element, Format source, class RoundingOf>
constexpr uint8_t quantise_block(const Code<source>* x, int64_t stride, ScaleMode mode, RoundingOf rounding_of, uint8_t* codes) {
  const uint8_t scale = block_scale<element>(block_amax<source>(x, stride), mode);
  quantise_elements<element, source>(x, stride, scale, rounding_of, codes);
  return scale;
}

/// The reverse: 32 codes of `to` at y[i * stride].
template <Format element, Format to>
constexpr void dequantise_block(const uint8_t* codes, uint8_t scale, Code<to>* y, int64_t stride) {
  for (int i = 0; i < kBlock; i++) {
    const int byte = codes[i / kElementsPerByte<element>];
    const int code = kElementsPerByte<element> == 2 ? byte >> (i % 2 * 4) & 15 : byte;
    y[i * stride] = decode_scaled<element, to>(static_cast<Code<element>>(code), scale);
  }
}

}  // namespace jaxator::numeric
