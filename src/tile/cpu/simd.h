/// @file
/// Vectors of 32-bit lanes, as wide as the instruction set allows. The only header that names instructions; kernels use
/// the compiler's vector extensions. Each instruction set compiles the kernels in its own namespace and shared object.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "jaxator/types.h"

#if !defined(JAXATOR_ISA)
#error "JAXATOR_ISA names the instruction set's namespace and is set by CMake"
#endif

#define JAXATOR_INLINE inline __attribute__((always_inline))

namespace jaxator::JAXATOR_ISA {

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64, kRegisters = 32;
#else
inline constexpr int kVectorBytes = 32, kRegisters = 16;
#endif
inline constexpr int kLanes = kVectorBytes / 4;

typedef float f32v __attribute__((vector_size(kVectorBytes)));
typedef int32_t i32v __attribute__((vector_size(kVectorBytes)));
typedef uint32_t u32v __attribute__((vector_size(kVectorBytes)));
typedef double f64v __attribute__((vector_size(kVectorBytes)));
typedef int64_t i64v __attribute__((vector_size(kVectorBytes)));
typedef float f32h __attribute__((vector_size(kVectorBytes / 2)));
typedef int32_t i32h __attribute__((vector_size(kVectorBytes / 2)));
typedef uint16_t u16h __attribute__((vector_size(kVectorBytes / 2)));
typedef uint16_t u16v __attribute__((vector_size(kVectorBytes)));

/// Storage types: distinct so that overloads tell them apart.
struct Bf16 {
  uint16_t bits;
};
struct Fp16 {
  uint16_t bits;
};

template <class T> inline constexpr DType dtype_of = DType::f32;
template <> inline constexpr DType dtype_of<Bf16> = DType::bf16;
template <> inline constexpr DType dtype_of<Fp16> = DType::f16;

// ---- any vector -------------------------------------------------------------------------------------------------
template <class V> JAXATOR_INLINE V load(const void* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
template <class V> JAXATOR_INLINE void store(void* p, V v) { __builtin_memcpy(p, &v, sizeof v); }
/// Past the caches: worth it only for results larger than the last-level cache. p is aligned to kVectorBytes.
template <class V> JAXATOR_INLINE void stream(void* p, V v) {
#if defined(__AVX512F__)
  _mm512_stream_si512((__m512i*)p, (__m512i)v);
#else
  _mm256_stream_si256((__m256i*)p, (__m256i)v);
#endif
}
JAXATOR_INLINE u16v join(u16h low, u16h high) {
#if defined(__AVX512F__)
  return (u16v)_mm512_inserti64x4(_mm512_castsi256_si512((__m256i)low), (__m256i)high, 1);
#else
  return (u16v)_mm256_set_m128i((__m128i)high, (__m128i)low);
#endif
}
JAXATOR_INLINE u16h low_half(u16v x) {
#if defined(__AVX512F__)
  return (u16h)_mm512_castsi512_si256((__m512i)x);
#else
  return (u16h)_mm256_castsi256_si128((__m256i)x);
#endif
}
JAXATOR_INLINE u16h high_half(u16v x) {
#if defined(__AVX512F__)
  return (u16h)_mm512_extracti64x4_epi64((__m512i)x, 1);
#else
  return (u16h)_mm256_extracti128_si256((__m256i)x, 1);
#endif
}
JAXATOR_INLINE f32v join(f32h low, f32h high) { return (f32v)join((u16h)low, (u16h)high); }
JAXATOR_INLINE i32v join(i32h low, i32h high) { return (i32v)join((u16h)low, (u16h)high); }
JAXATOR_INLINE f32v splat(float x) { return x - f32v{}; }  // exact, keeps -0.0
JAXATOR_INLINE i32v splat(int32_t x) { return x - i32v{}; }
JAXATOR_INLINE f32v select(i32v mask, f32v a, f32v b) { return mask ? a : b; }
JAXATOR_INLINE f32v vmax(f32v a, f32v b) { return a > b ? a : b; }  // one vmaxps; b where a is NaN
JAXATOR_INLINE f32v vmin(f32v a, f32v b) { return a < b ? a : b; }
/// a * b + c with one rounding, where the algorithm needs it and not only gains by it.
JAXATOR_INLINE f64v fused(f64v a, f64v b, f64v c) {
#if defined(__AVX512F__)
  return (f64v)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#else
  return (f64v)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#endif
}

/// a and b are 2 * kLanes values in a row: those at even (odd) places, and back.
JAXATOR_INLINE f32v even_places(f32v a, f32v b) {
#if defined(__AVX512F__)
  const __m512i from = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  return (f32v)_mm512_permutex2var_ps((__m512)a, from, (__m512)b);
#else
  return (f32v)_mm256_permute4x64_pd((__m256d)_mm256_shuffle_ps((__m256)a, (__m256)b, 0x88), 0xd8);
#endif
}
JAXATOR_INLINE f32v odd_places(f32v a, f32v b) {
#if defined(__AVX512F__)
  const __m512i from = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
  return (f32v)_mm512_permutex2var_ps((__m512)a, from, (__m512)b);
#else
  return (f32v)_mm256_permute4x64_pd((__m256d)_mm256_shuffle_ps((__m256)a, (__m256)b, 0xdd), 0xd8);
#endif
}
JAXATOR_INLINE f32v alternate_low(f32v even, f32v odd) {
#if defined(__AVX512F__)
  const __m512i from = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  return (f32v)_mm512_permutex2var_ps((__m512)even, from, (__m512)odd);
#else
  return (f32v)_mm256_permute2f128_ps(_mm256_unpacklo_ps((__m256)even, (__m256)odd),
                                      _mm256_unpackhi_ps((__m256)even, (__m256)odd), 0x20);
#endif
}
JAXATOR_INLINE f32v alternate_high(f32v even, f32v odd) {
#if defined(__AVX512F__)
  const __m512i from = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  return (f32v)_mm512_permutex2var_ps((__m512)even, from, (__m512)odd);
#else
  return (f32v)_mm256_permute2f128_ps(_mm256_unpacklo_ps((__m256)even, (__m256)odd),
                                      _mm256_unpackhi_ps((__m256)even, (__m256)odd), 0x31);
#endif
}
JAXATOR_INLINE i32v iota() {
  i32v v;
  for (int i = 0; i < kLanes; i++) v[i] = i;
  return v;
}

/// Sum of all lanes, pairwise: the order is fixed, so every caller gets the same bits.
JAXATOR_INLINE float sum(f32v v) {
  float lane[kLanes];
  store(lane, v);
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int i = 0; i < width; i++) lane[i] += lane[i + width];
  return lane[0];
}

// ---- widening and narrowing ---------------------------------------------------------------------------------------
JAXATOR_INLINE f32v load_f32(const float* p) { return load<f32v>(p); }
JAXATOR_INLINE f32v widen(Bf16, u16h x) { return (f32v)(__builtin_convertvector(x, u32v) << 16); }
JAXATOR_INLINE f32v widen(Fp16, u16h x) {
#if defined(__AVX512F__)
  return (f32v)_mm512_cvtph_ps((__m256i)x);
#else
  return (f32v)_mm256_cvtph_ps((__m128i)x);
#endif
}
JAXATOR_INLINE f32v load_f32(const Bf16* p) { return widen(Bf16{}, load<u16h>(p)); }
JAXATOR_INLINE f32v load_f32(const Fp16* p) { return widen(Fp16{}, load<u16h>(p)); }

/// Nearest-even; NaN stays NaN (quiet).
JAXATOR_INLINE u16h to_bf16(f32v x) {
#if defined(__AVX512BF16__)
  return (u16h)_mm512_cvtneps_pbh((__m512)x);
#else
  u32v u = (u32v)x, rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  return __builtin_convertvector((u32v)select(x == x, (f32v)rounded, (f32v)((u >> 16) | 0x40u)), u16h);
#endif
}
/// Two vectors by one instruction where there is one.
JAXATOR_INLINE u16v to_bf16(f32v low, f32v high) {
#if defined(__AVX512BF16__)
  return (u16v)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low);
#else
  return join(to_bf16(low), to_bf16(high));
#endif
}
JAXATOR_INLINE u16h to_fp16(f32v x) {
#if defined(__AVX512F__)
  return (u16h)_mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT);
#else
  return (u16h)_mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT);
#endif
}
JAXATOR_INLINE void store_f32(float* p, f32v x) { store(p, x); }
JAXATOR_INLINE void store_f32(Bf16* p, f32v x) { store(p, to_bf16(x)); }
JAXATOR_INLINE void store_f32(Fp16* p, f32v x) { store(p, to_fp16(x)); }

/// Past the caches: worth it only for results larger than the last-level cache. Needs p aligned to the stored bytes.
JAXATOR_INLINE void stream_f32(float* p, f32v x) {
#if defined(__AVX512F__)
  _mm512_stream_ps(p, (__m512)x);
#else
  _mm256_stream_ps(p, (__m256)x);
#endif
}
JAXATOR_INLINE void stream_u16(void* p, u16h x) {
#if defined(__AVX512F__)
  _mm256_stream_si256((__m256i*)p, (__m256i)x);
#else
  _mm_stream_si128((__m128i*)p, (__m128i)x);
#endif
}
JAXATOR_INLINE void stream_f32(Bf16* p, f32v x) { stream_u16(p, to_bf16(x)); }
JAXATOR_INLINE void stream_f32(Fp16* p, f32v x) { stream_u16(p, to_fp16(x)); }

// ---- tails: the first n (0 <= n < kLanes) lanes; nothing past them is touched, missing lanes read as zero ---------
template <class T> JAXATOR_INLINE f32v load_f32(const T* p, int n) {
  T lane[kLanes]{};
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) return (f32v)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
  store(lane, _mm256_maskz_loadu_epi16((__mmask16)((1u << n) - 1), p));
#else
  __builtin_memcpy(lane, p, sizeof(T) * n);
#endif
  return load_f32(lane);
}
template <class T> JAXATOR_INLINE void store_f32(T* p, f32v x, int n) {
  T lane[kLanes];
  store_f32(lane, x);
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) return _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)x);
  _mm256_mask_storeu_epi16(p, (__mmask16)((1u << n) - 1), load<__m256i>(lane));
#else
  __builtin_memcpy(p, lane, sizeof(T) * n);
#endif
}

// ---- scalars, for the few places that have no vector ---------------------------------------------------------------
JAXATOR_INLINE float to_float(float x) { return x; }
JAXATOR_INLINE float to_float(Bf16 x) { return __builtin_bit_cast(float, (uint32_t)x.bits << 16); }
JAXATOR_INLINE float to_float(Fp16 x) { return _cvtsh_ss(x.bits); }

}  // namespace jaxator::JAXATOR_ISA
