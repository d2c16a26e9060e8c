/// @file
/// Element types in memory and their float32 values, in vectors of 16 bytes.
#pragma once

#include "src/tile/cdna/base.h"

namespace jaxator::cdna {

struct Bf16 {
  u16 bits;
};
struct F16 {
  u16 bits;
};

template <class To, class From> JAXATOR_DEVICE To bits_as(From value) { return __builtin_bit_cast(To, value); }

JAXATOR_DEVICE float to_float(float x) { return x; }
JAXATOR_DEVICE float to_float(Bf16 x) { return bits_as<float>(static_cast<u32>(x.bits) << 16); }
JAXATOR_DEVICE float to_float(F16 x) { return static_cast<float>(bits_as<_Float16>(x.bits)); }

/// Nearest-even.
template <class T> JAXATOR_DEVICE T from_float(float x);
template <> JAXATOR_DEVICE float from_float<float>(float x) { return x; }
template <> JAXATOR_DEVICE Bf16 from_float<Bf16>(float x) { return {bits_as<u16>(static_cast<__bf16>(x))}; }
template <> JAXATOR_DEVICE F16 from_float<F16>(float x) { return {bits_as<u16>(static_cast<_Float16>(x))}; }

/// Two 16-bit elements in one register, the first in the low half. gfx950 has an instruction for two bfloat16.
template <class T> JAXATOR_DEVICE u32 pack2(float low, float high) {
  using Floats = float __attribute__((ext_vector_type(2)));
  if constexpr (__is_same(T, Bf16)) {
    using Halves = __bf16 __attribute__((ext_vector_type(2)));
    return bits_as<u32>(__builtin_convertvector((Floats{low, high}), Halves));
  } else {
    using Halves = _Float16 __attribute__((ext_vector_type(2)));
    return bits_as<u32>(__builtin_convertvector((Floats{low, high}), Halves));
  }
}

/// Two floats in neighbouring registers: one instruction adds, multiplies or fuses both.
using Pair = float __attribute__((ext_vector_type(2)));

/// Sixteen bytes of elements.
using Vector = u32 __attribute__((ext_vector_type(4)));

template <class T> inline constexpr int kVectorElements = 16 / sizeof(T);

template <class T> JAXATOR_DEVICE void unpack(Vector v, float (&out)[kVectorElements<T>]) {
#pragma unroll
  for (int i = 0; i < 4; i++) {
    if constexpr (sizeof(T) == 4) {
      out[i] = bits_as<float>(v[i]);
    } else if constexpr (__is_same(T, Bf16)) {
      out[2 * i] = bits_as<float>(v[i] << 16);
      out[2 * i + 1] = bits_as<float>(v[i] & 0xffff0000u);
    } else {
      out[2 * i] = to_float(T{static_cast<u16>(v[i])});
      out[2 * i + 1] = to_float(T{static_cast<u16>(v[i] >> 16)});
    }
  }
}

/// The first element alone.
template <class T> JAXATOR_DEVICE float first_of(Vector v) {
  if constexpr (sizeof(T) == 4)
    return bits_as<float>(v[0]);
  else
    return to_float(T{static_cast<u16>(v[0])});
}

template <class T> JAXATOR_DEVICE Vector pack(const float (&values)[kVectorElements<T>]) {
  Vector v;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    if constexpr (sizeof(T) == 4)
      v[i] = bits_as<u32>(values[i]);
    else
      v[i] = pack2<T>(values[2 * i], values[2 * i + 1]);
  }
  return v;
}

}  // namespace jaxator::cdna
