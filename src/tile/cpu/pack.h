/// @file
/// Brings rows of an array into the forms that dot.h multiplies. Rows are given by a function from index to pointer; a null
/// row is padding: zeros are packed and nothing is read.
#pragma once

#include "src/tile/cpu/dot.h"
#include "src/tile/cpu/transpose.h"

namespace jaxator::JAXATOR_ISA {

/// One vector of words from a row that has n elements left; missing ones are zeros.
template <class Dot, class T> JAXATOR_INLINE u32v load_words(const T* p, int64_t n) {
  constexpr int64_t whole = kLanes * Dot::group;
  if constexpr (Dot::group == 1) {
    return n >= whole ? (u32v)load_f32(p) : (u32v)load_f32(p, static_cast<int>(n));
  } else {
    if (n >= whole) return load<u32v>(p);
    u32v words{};
    __builtin_memcpy(&words, p, static_cast<size_t>(n) * sizeof(T));
    return words;
  }
}

/// One vector of columns, as words of the neighbours row and next. Null rows and columns past n count as zeros.
template <class Dot, class T> JAXATOR_INLINE u32v load_neighbours(const T* row, const T* next, int64_t n) {
  if constexpr (Dot::group == 1) {
    return row == nullptr || n <= 0 ? u32v{} : load_words<Dot>(row, n);
  } else {
    const auto bits = [n](const T* p) {
      u16h half{};
      if (p != nullptr && n >= kLanes)
        half = load<u16h>(p);
      else if (p != nullptr && n > 0)
        __builtin_memcpy(&half, p, static_cast<size_t>(n) * 2);
      return __builtin_convertvector(half, u32v);
    };
    return bits(row) | (bits(next) << 16);
  }
}

/// A by rows, for dot_rows: [rows / kTileRows][words / kLanes][kTileRows][kLanes].
template <class Dot, class T, class RowAt> void pack_rows(RowAt&& row_at, int64_t rows, int64_t elements, uint32_t* out) {
  constexpr int64_t step = kLanes * Dot::group;
  for (int64_t first = 0; first < rows; first += kTileRows) {
    const T* row[kTileRows];
    for (int r = 0; r < kTileRows; r++) row[r] = row_at(first + r);
    for (int64_t e = 0; e < elements; e += step)
      for (int r = 0; r < kTileRows; r++, out += kLanes)
        store(out, row[r] == nullptr ? u32v{} : load_words<Dot>(row[r] + e, elements - e));
  }
}

/// Read in place of a null row, so that 16 rows load without 16 branches, which would send them through the stack: rows were
/// packed 25 % slower on Zen 5.
alignas(kVectorBytes) inline constexpr unsigned char kZeros[kVectorBytes]{};

/// Columns of kLanes rows from element e on, of which each has n left.
template <class Dot, class T> JAXATOR_INLINE void load_transposed(const T* const* row, int64_t e, int64_t n,
                                                                  u32v (&block)[kLanes]) {
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; i++)
    block[i] = load_words<Dot>(row[i] == nullptr ? reinterpret_cast<const T*>(kZeros) : row[i] + e, n);
  transpose(block);
}

/// Rows in lanes, B for a contraction along the rows: [words][kTileColumns].
template <class Dot, class T> void pack_transposed(const T* const (&row)[kTileColumns], int64_t elements, uint32_t* out) {
  constexpr int64_t step = kLanes * Dot::group;
  for (int64_t e = 0; e < elements; e += step) {
    const int64_t words = (elements - e + Dot::group - 1) / Dot::group;
    uint32_t* to = out + e / Dot::group * kTileColumns;
    for (int v = 0; v < kTileVectors; v++) {
      if (elements - e >= step) {
        u32v block[kLanes];
        load_transposed<Dot>(row + v * kLanes, e, step, block);
#pragma GCC unroll 16
        for (int i = 0; i < kLanes; i++) store(to + i * kTileColumns + v * kLanes, block[i]);
      } else {
        u32v block[kLanes];  // one of its own: indexed by a variable, it lives on the stack
        load_transposed<Dot>(row + v * kLanes, e, elements - e, block);
        for (int i = 0; i < words; i++) store(to + i * kTileColumns + v * kLanes, block[i]);
      }
    }
  }
}

/// Contraction across the rows: panels of `width` columns, [columns / width][rows / group][width], panel_words apart. Columns
/// are filled up to `padded`, a multiple of kLanes. A for dot_columns with width kTileRows, for which `rows` is a multiple of
/// 2 * group, B with width kTileColumns.
template <class Dot, class T, int width, class RowAt>
void pack_panels(RowAt&& row_at, int64_t rows, int64_t elements, int64_t padded, int64_t panel_words, uint32_t* out) {
  constexpr int together = width < kLanes ? 2 : 1;  // rows of words that fill a vector of the panel
  static_assert(width >= kLanes || width * 2 == kLanes);
  for (int64_t r = 0; r < rows; r += together * Dot::group, out += together * width) {
    const T* row[together * Dot::group];
    for (int i = 0; i < together * Dot::group; i++) row[i] = row_at(r + i);
    for (int64_t e = 0; e < padded; e += kLanes) {
      u32v words[together];
      for (int i = 0; i < together; i++) {
        const T *p = row[i * Dot::group], *next = row[(i + 1) * Dot::group - 1];
        words[i] = load_neighbours<Dot>(p == nullptr ? p : p + e, next == nullptr ? next : next + e, elements - e);
      }
      uint32_t* to = out + e / width * panel_words + e % width;
      if constexpr (together == 1) {
        store(to, words[0]);
      } else {
        store(to, join(low_half((u16v)words[0]), low_half((u16v)words[1])));
        store(to + panel_words, join(high_half((u16v)words[0]), high_half((u16v)words[1])));
      }
    }
  }
}

/// Writes columns of [elements][kTileColumns] as rows of an array: out_at(lane) is where, or null to skip. scaled(v, x) maps
/// a vector of lanes v before the transposition.
template <class T, class OutAt, class Scaled> void unpack_transposed(const float* in, int64_t elements, OutAt&& out_at,
                                                                     Scaled&& scaled) {
  for (int v = 0; v < kTileVectors; v++) {
    T* out[kLanes];
    for (int i = 0; i < kLanes; i++) out[i] = out_at(v * kLanes + i);
    for (int64_t e = 0; e < elements; e += kLanes) {
      u32v block[kLanes];
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; i++) block[i] = (u32v)scaled(v, load<f32v>(in + (e + i) * kTileColumns + v * kLanes));
      transpose(block);
      const int64_t left = elements - e;
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; i++) {
        if (out[i] == nullptr) continue;
        if (left >= kLanes)
          store_f32(out[i] + e, (f32v)block[i]);
        else
          store_f32(out[i] + e, (f32v)block[i], static_cast<int>(left));
      }
    }
  }
}

}  // namespace jaxator::JAXATOR_ISA
