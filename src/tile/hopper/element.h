/// @file
/// Element types in memory and their float32 values, in vectors of 16 bytes.
#pragma once

#include "src/tile/hopper/base.h"

namespace jaxator::hopper {

struct Bf16 {
  u16 bits;
};
struct F16 {
  u16 bits;
};

template <class To, class From> JAXATOR_DEVICE To bits_as(From value) { return __builtin_bit_cast(To, value); }

JAXATOR_DEVICE float to_float(float x) { return x; }
JAXATOR_DEVICE float to_float(Bf16 x) { return bits_as<float>(static_cast<u32>(x.bits) << 16); }
JAXATOR_DEVICE float to_float(F16 x) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(x.bits));
  return value;
}

/// Nearest-even.
template <class T> JAXATOR_DEVICE T from_float(float x);
template <> JAXATOR_DEVICE float from_float<float>(float x) { return x; }
template <> JAXATOR_DEVICE Bf16 from_float<Bf16>(float x) {
  Bf16 value;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(value.bits) : "f"(x));
  return value;
}
template <> JAXATOR_DEVICE F16 from_float<F16>(float x) {
  F16 value;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(value.bits) : "f"(x));
  return value;
}

/// Two 16-bit elements in one register, the first in the low half.
template <class T> JAXATOR_DEVICE u32 pack2(float low, float high);
template <> JAXATOR_DEVICE u32 pack2<Bf16>(float low, float high) {
  u32 value;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(value) : "f"(high), "f"(low));
  return value;
}
template <> JAXATOR_DEVICE u32 pack2<F16>(float low, float high) {
  u32 value;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(value) : "f"(high), "f"(low));
  return value;
}

/// Sixteen bytes of elements.
struct Vector {
  u32 word[4];
};

template <class T> inline constexpr int kVectorElements = 16 / sizeof(T);

template <class T> JAXATOR_DEVICE void unpack(const Vector& v, float (&out)[kVectorElements<T>]) {
  if constexpr (sizeof(T) == 4) {
#pragma unroll
    for (int i = 0; i < 4; i++) out[i] = bits_as<float>(v.word[i]);
  } else {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      out[2 * i] = to_float(T{static_cast<u16>(v.word[i])});
      out[2 * i + 1] = to_float(T{static_cast<u16>(v.word[i] >> 16)});
    }
  }
}

template <class T> JAXATOR_DEVICE Vector pack(const float (&values)[kVectorElements<T>]) {
  Vector v;
  if constexpr (sizeof(T) == 4) {
#pragma unroll
    for (int i = 0; i < 4; i++) v.word[i] = bits_as<u32>(values[i]);
  } else {
#pragma unroll
    for (int i = 0; i < 4; i++) v.word[i] = pack2<T>(values[2 * i], values[2 * i + 1]);
  }
  return v;
}

}  // namespace jaxator::hopper
