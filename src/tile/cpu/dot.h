/// @file
/// Small matrix products in registers. Every operand is made of 32-bit words that hold one float32 or a pair of bfloat16
/// neighbours along the contraction, so one kernel serves both and only Dot and the packing differ.
#pragma once

#include "src/tile/cpu/simd.h"

namespace jaxator::JAXATOR_ISA {

/// Rows of one register tile. With two vectors of columns there are 16 (8) accumulators, which covers the FMA's latency of
/// 4 clocks on 2 ports, and a step is 10 (6) loads for 16 (8) products.
inline constexpr int kTileRows = kLanes / 2;
inline constexpr int kTileVectors = 2;
inline constexpr int kTileColumns = kTileVectors * kLanes;

struct DotF32 {
  static constexpr int group = 1;  // elements of a word
  static JAXATOR_INLINE f32v dot(f32v c, u32v a, u32v b) { return c + (f32v)a * (f32v)b; }
  /// Stores two neighbours along the contraction, each with its own columns, as rows of a B operand.
  static JAXATOR_INLINE void store_neighbours(uint32_t* row, f32v first, f32v second) {
    store(row, first);
    store(row + kTileColumns, second);
  }
};

#if defined(__AVX512BF16__)
/// Denormal inputs and results count as 0 in this instruction, whatever MXCSR says.
struct DotBf16 {
  static constexpr int group = 2;
  static JAXATOR_INLINE f32v dot(f32v c, u32v a, u32v b) { return (f32v)_mm512_dpbf16_ps((__m512)c, (__m512bh)a, (__m512bh)b); }
  static JAXATOR_INLINE void store_neighbours(uint32_t* row, f32v first, f32v second) { store(row, interleave(first, second)); }
  /// Rounded: lanes of `first` in the low halves of the words, lanes of `second` in the high ones.
  static JAXATOR_INLINE u32v interleave(f32v first, f32v second) {
    typedef uint16_t u16v __attribute__((vector_size(64)));
    constexpr u16v order = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                            8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    return (u32v)_mm512_permutexvar_epi16((__m512i)order, (__m512i)_mm512_cvtne2ps_pbh((__m512)second, (__m512)first));
  }
  /// Rounded: neighbouring lanes of first, then of second, in the words.
  static JAXATOR_INLINE u32v join(f32v first, f32v second) { return (u32v)_mm512_cvtne2ps_pbh((__m512)second, (__m512)first); }
};
#endif

struct Tile {
  f32v at[kTileRows][kTileVectors];
};

/// Calls body(row, vector) with constants, so that a tile's elements stay in registers.
template <class Body> JAXATOR_INLINE void for_tile(Body&& body) {
#pragma GCC unroll 16
  for (int r = 0; r < kTileRows; r++)
#pragma GCC unroll 2
    for (int v = 0; v < kTileVectors; v++) body(r, v);
}

JAXATOR_INLINE void clear(Tile& c) {
  for_tile([&](int r, int v) { c.at[r][v] = f32v{}; });
}
JAXATOR_INLINE void load_tile(Tile& c, const float* p) {
  for_tile([&](int r, int v) { c.at[r][v] = load<f32v>(p + r * kTileColumns + v * kLanes); });
}
JAXATOR_INLINE void store_tile(const Tile& c, float* p) {
  for_tile([&](int r, int v) { store(p + r * kTileColumns + v * kLanes, c.at[r][v]); });
}
JAXATOR_INLINE void prefetch_tile(const float* p) {
  for_tile([&](int r, int v) { __builtin_prefetch(p + r * kTileColumns + v * kLanes); });
}

template <class Dot, int row_stride> JAXATOR_INLINE void dot_step(Tile& c, const uint32_t* a, const uint32_t* b) {
  u32v column[kTileVectors];
#pragma GCC unroll 2
  for (int v = 0; v < kTileVectors; v++) column[v] = load<u32v>(b + v * kLanes);
#pragma GCC unroll 16
  for (int r = 0; r < kTileRows; r++) {
    const u32v row = a[r * row_stride] - u32v{};
#pragma GCC unroll 2
    for (int v = 0; v < kTileVectors; v++) c.at[r][v] = Dot::dot(c.at[r][v], row, column[v]);
  }
}

/// c += A B over `words` steps. A by rows: [words / kLanes][kTileRows][kLanes], what copying row pieces gives; every broadcast is
/// a constant offset from one pointer, and rows never share a cache set. B: [words][kTileColumns]. Both are read in order, so
/// hardware prefetches them: software prefetch of A and B changed attention by less than the noise of 1 % on Zen 5, and cost 1 %
/// on Emerald Rapids.
template <class Dot> JAXATOR_INLINE void dot_rows(Tile& c, int64_t words, const uint32_t* a, const uint32_t* b) {
  for (; words >= kLanes; words -= kLanes, a += kTileRows * kLanes)
#pragma GCC unroll 4
    for (int k = 0; k < kLanes; k++, b += kTileColumns) dot_step<Dot, kLanes>(c, a + k, b);
  for (int64_t k = 0; k < words; k++, b += kTileColumns) dot_step<Dot, kLanes>(c, a + k, b);
}

/// The same with A by columns: [words][kTileRows], what copying pieces of the transposed operand gives.
template <class Dot> JAXATOR_INLINE void dot_columns(Tile& c, int64_t words, const uint32_t* a, const uint32_t* b) {
#pragma GCC unroll 4
  for (int64_t k = 0; k < words; k++, a += kTileRows, b += kTileColumns) dot_step<Dot, 1>(c, a, b);
}

/// The same with A as kTileRows columns of what dot_rows takes: pieces of [kTileRows][kLanes], `panel_words` apart. Only where
/// a word is one element, as its neighbours along the contraction are in other rows.
template <class Dot> JAXATOR_INLINE void dot_across(Tile& c, int64_t words, const uint32_t* a, int64_t panel_words,
                                                    const uint32_t* b) {
  static_assert(Dot::group == 1);
  for (; words >= kTileRows; words -= kTileRows, a += panel_words)
#pragma GCC unroll 8
    for (int k = 0; k < kTileRows; k++, b += kTileColumns) dot_step<Dot, 1>(c, a + k * kLanes, b);
}

}  // namespace jaxator::JAXATOR_ISA
