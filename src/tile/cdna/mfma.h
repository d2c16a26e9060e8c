/// @file
/// Matrix instructions. A wave multiplies Size x Size results at a time: a's lanes hold rows, b's lanes columns of the result.
///
/// Operands come in fragments as 16-byte reads of LDS give them: lane l holds the k of lane group l / Size of row (or column)
/// l % Size. Which k a group has does not matter as long as both operands agree. Element e of a lane's results is in row
/// 8 * (e / 4) + 4 * (l / Size) + e % 4 and column l % Size.
#pragma once

#include "src/tile/cdna/element.h"

namespace jaxator::cdna {

#if defined(__gfx950__)
inline constexpr bool kGfx950 = true;
#else
inline constexpr bool kGfx950 = false;
#endif

template <class T, int N> using Lanes = T __attribute__((ext_vector_type(N)));

/// Eight-bit floats of OCP in memory; gfx942 multiplies the FNUZ formats, whose numbers are half of those with the same bits.
struct E4m3 {
  u8 bits;
};
struct E5m2 {
  u8 bits;
};

template <class T> inline constexpr bool kEightBits = sizeof(T) == 1;

namespace detail {

template <int Size, class T> struct Product16;
#if defined(__gfx950__)
#define JAXATOR_PRODUCT(size, type, Operand, builtin)                                                   \
  template <> struct Product16<size, type> {                                                            \
    template <class C> JAXATOR_DEVICE static C of(Vector a, Vector b, C c) {                            \
      return __builtin_amdgcn_mfma_f32_##builtin(bits_as<Operand>(a), bits_as<Operand>(b), c, 0, 0, 0); \
    }                                                                                                   \
  };
using OperandBf16 = Lanes<__bf16, 8>;
using OperandF16 = Lanes<_Float16, 8>;
JAXATOR_PRODUCT(16, Bf16, OperandBf16, 16x16x32_bf16)
JAXATOR_PRODUCT(16, F16, OperandF16, 16x16x32_f16)
JAXATOR_PRODUCT(32, Bf16, OperandBf16, 32x32x16_bf16)
JAXATOR_PRODUCT(32, F16, OperandF16, 32x32x16_f16)
#else
// One read of 16 bytes feeds two instructions.
#define JAXATOR_PRODUCT(size, type, Operand, builtin)                                                         \
  template <> struct Product16<size, type> {                                                                  \
    template <class C> JAXATOR_DEVICE static C of(Vector a, Vector b, C c) {                                  \
      c = __builtin_amdgcn_mfma_f32_##builtin(bits_as<Operand>(a.lo), bits_as<Operand>(b.lo), c, 0, 0, 0);    \
      return __builtin_amdgcn_mfma_f32_##builtin(bits_as<Operand>(a.hi), bits_as<Operand>(b.hi), c, 0, 0, 0); \
    }                                                                                                         \
  };
using OperandBf16 = Lanes<short, 4>;
using OperandF16 = Lanes<_Float16, 4>;
JAXATOR_PRODUCT(16, Bf16, OperandBf16, 16x16x16bf16_1k)
JAXATOR_PRODUCT(16, F16, OperandF16, 16x16x16f16)
JAXATOR_PRODUCT(32, Bf16, OperandBf16, 32x32x8bf16_1k)
JAXATOR_PRODUCT(32, F16, OperandF16, 32x32x8f16)
#endif
#undef JAXATOR_PRODUCT

}  // namespace detail

template <int Size> using Accumulator = Lanes<float, Size * Size / 64>;

/// c + a b for 16-bit elements: k 32 deep for Size 16, 16 deep for Size 32.
template <int Size, class T> JAXATOR_DEVICE Accumulator<Size> multiply_add(Vector a, Vector b, Accumulator<Size> c) {
  return detail::Product16<Size, T>::of(a, b, c);
}

/// Of 8-bit elements. gfx950: two reads of 16 bytes of each operand, k 128 deep for Size 16 and 64 for Size 32, at twice the
/// speed of its shorter forms. gfx942: one read, k 64 deep for Size 16 and 32 for Size 32, of FNUZ numbers.
#if defined(__gfx950__)
using EightBitFragment = Lanes<int, 8>;

JAXATOR_DEVICE EightBitFragment fragment_of(Vector first, Vector second) {
  return __builtin_shufflevector(bits_as<Lanes<int, 4>>(first), bits_as<Lanes<int, 4>>(second), 0, 1, 2, 3, 4, 5, 6, 7);
}

template <int Size, class A, class B>
JAXATOR_DEVICE Accumulator<Size> multiply_add_8(EightBitFragment a, EightBitFragment b, Accumulator<Size> c) {
  constexpr int kFormatA = __is_same(A, E5m2), kFormatB = __is_same(B, E5m2);  // 0: E4M3, 1: E5M2
  // Scales of 2^0 become the form without scales.
  if constexpr (Size == 16)
    return __builtin_amdgcn_mfma_scale_f32_16x16x128_f8f6f4(a, b, c, kFormatA, kFormatB, 0, 0, 0, 0);
  else
    return __builtin_amdgcn_mfma_scale_f32_32x32x64_f8f6f4(a, b, c, kFormatA, kFormatB, 0, 0, 0, 0);
}
#else
using EightBitFragment = Vector;

namespace detail {
template <int Size, class A, class B> JAXATOR_DEVICE Accumulator<Size> product_8(long a, long b, Accumulator<Size> c) {
  constexpr bool kA5 = __is_same(A, E5m2), kB5 = __is_same(B, E5m2);
#define JAXATOR_PRODUCT(x, y)                                              \
  if constexpr (Size == 16)                                                \
    return __builtin_amdgcn_mfma_f32_16x16x32_##x##_##y(a, b, c, 0, 0, 0); \
  else                                                                     \
    return __builtin_amdgcn_mfma_f32_32x32x16_##x##_##y(a, b, c, 0, 0, 0);
  if constexpr (!kA5 && !kB5) {
    JAXATOR_PRODUCT(fp8, fp8)
  } else if constexpr (!kA5) {
    JAXATOR_PRODUCT(fp8, bf8)
  } else if constexpr (!kB5) {
    JAXATOR_PRODUCT(bf8, fp8)
  } else {
    JAXATOR_PRODUCT(bf8, bf8)
  }
#undef JAXATOR_PRODUCT
}
}  // namespace detail

template <int Size, class A, class B>
JAXATOR_DEVICE Accumulator<Size> multiply_add_8(EightBitFragment a, EightBitFragment b, Accumulator<Size> c) {
  c = detail::product_8<Size, A, B>(bits_as<long>(a.lo), bits_as<long>(b.lo), c);
  return detail::product_8<Size, A, B>(bits_as<long>(a.hi), bits_as<long>(b.hi), c);
}
#endif

}  // namespace jaxator::cdna
