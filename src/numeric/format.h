/// @file
/// Small float formats as data: one description serves every conversion. Nothing in src/numeric but denormals.h needs a standard
/// library, so that the same source compiles for x86, CUDA and CDNA.
#pragma once

#include <stdint.h>

namespace jaxator::numeric {

/// What the codes at the edges of a format mean.
enum class Specials : uint8_t {
  ieee,      // the top exponent: infinities and NaN
  nan_only,  // OCP "FN": the largest magnitude is NaN; no infinity
  fnuz,      // the code of -0 is the only NaN; no infinity, no -0
  none,      // every code is a finite number
};

/// Sign, exponent and mantissa, from the high bit down. An exponent field of 0 holds zero and the denormals.
struct Format {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  Specials specials;

  constexpr int bits() const { return 1 + exponent_bits + mantissa_bits; }
  constexpr uint32_t sign_bit() const { return uint32_t{1} << (exponent_bits + mantissa_bits); }
  /// Code of the largest finite magnitude.
  constexpr uint32_t max_code() const {
    switch (specials) {
      case Specials::ieee:
        return sign_bit() - (uint32_t{1} << mantissa_bits) - 1;
      case Specials::nan_only:
        return sign_bit() - 2;
      default:
        return sign_bit() - 1;
    }
  }
  /// Exponent of the smallest normal number and of the largest one.
  constexpr int min_exponent() const { return 1 - bias; }
  constexpr int max_exponent() const { return static_cast<int>(max_code() >> mantissa_bits) - bias; }
  constexpr bool has_infinity() const { return specials == Specials::ieee; }
};

inline constexpr Format f32{8, 23, 127, Specials::ieee};
inline constexpr Format bf16{8, 7, 127, Specials::ieee};
inline constexpr Format f16{5, 10, 15, Specials::ieee};
inline constexpr Format e4m3{4, 3, 7, Specials::nan_only};   // OCP OFP8; largest 448
inline constexpr Format e5m2{5, 2, 15, Specials::ieee};      // OCP OFP8; largest 57344
inline constexpr Format e4m3fnuz{4, 3, 8, Specials::fnuz};   // gfx942; largest 240
inline constexpr Format e5m2fnuz{5, 2, 16, Specials::fnuz};  // gfx942; largest 57344
inline constexpr Format e2m1{2, 1, 1, Specials::none};       // OCP MX; 0, .5, 1, 1.5, 2, 3, 4, 6

namespace detail {
template <int bytes> struct Unsigned;
template <> struct Unsigned<1> {
  using type = uint8_t;
};
template <> struct Unsigned<2> {
  using type = uint16_t;
};
template <> struct Unsigned<4> {
  using type = uint32_t;
};
}  // namespace detail

/// What holds one code: the low bits of a byte, half or word.
template <Format format> using Code = typename detail::Unsigned<(format.bits() + 7) / 8>::type;

}  // namespace jaxator::numeric
