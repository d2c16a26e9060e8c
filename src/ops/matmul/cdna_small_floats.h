/// @file
/// Eight-bit floats of OCP as what the matrix cores take: float16 of the same value, or on gfx942 FNUZ numbers of half the value.
#pragma once

#include "src/tile/cdna/mfma.h"

namespace jaxator::cdna {

/// The element as T, exactly.
template <class T> JAXATOR_DEVICE T multiplied(T x) { return x; }
template <class T> JAXATOR_DEVICE T multiplied(E5m2 x) {
  static_assert(__is_same(T, F16));
  return {static_cast<u16>(x.bits << 8)};  // the upper half of a float16
}
template <class T> JAXATOR_DEVICE T multiplied(E4m3 x) {
  static_assert(__is_same(T, F16));
  // As bits of a float16, whose exponents are 8 larger; all ones are the only NaN.
  const u32 magnitude = x.bits & 0x7fu;
  const _Float16 value = bits_as<_Float16>(static_cast<u16>(magnitude << 7)) * static_cast<_Float16>(256);
  const u32 bits = magnitude == 0x7f ? 0x7e00u : bits_as<u16>(value);
  return {static_cast<u16>(bits | (x.bits & 0x80u) << 8)};
}

/// Eight-bit numbers of OCP as FNUZ numbers of half their values. All codes mean just that, with two exceptions: that of -0 is
/// FNUZ's NaN, so it becomes 0; and those of NaNs and infinities are numbers in FNUZ: the upper bits of bytes in `special` are
/// set where they occur, and what comes out is not to be used. Bits of `special` below these mean nothing.
template <class T> JAXATOR_DEVICE void to_fnuz(Vector& numbers, u32& special) {
  constexpr u32 kMagnitudes = 0x7f7f7f7fu;
  constexpr u32 kToSpecial = __is_same(T, E5m2) ? 0x04040404u : 0x01010101u;  // from 0x7c or 0x7f on
  Vector magnitude = numbers & kMagnitudes;
  asm("" : "+v"(magnitude));  // that these are bits of numbers would make the compiler take two instructions for one below
  const Vector marked = magnitude + kToSpecial;
  numbers = (numbers & (magnitude + kMagnitudes)) | magnitude;  // a sign where the magnitude is not 0
  special |= marked[0] | marked[1];
  special |= marked[2] | marked[3];
}
inline constexpr u32 kSpecial = 0x80808080u;

}  // namespace jaxator::cdna
