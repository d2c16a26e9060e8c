/// @file
/// Rows of an array, for kernels that normalise or activate row by row: a thread holds vectors of 16 bytes of its row, `threads`
/// apart, so that a warp's accesses are contiguous.
#pragma once

#include "src/tile/hopper/reduce.h"

namespace jaxator::hopper {

/// What a thread of `threads` has of a row whose length is a multiple of a vector. Elements stay packed: half the registers.
template <class T, int Vectors> struct RowPiece {
  static constexpr int kElements = kVectorElements<T>;
  Vector vector[Vectors];

  JAXATOR_DEVICE static int column(int i, u32 thread, u32 threads) {
    return static_cast<int>((thread + i * threads) * kElements);
  }

  /// Columns past the end are zeros.
  JAXATOR_DEVICE void load(const T* row, int columns, u32 thread, u32 threads) {
#pragma unroll
    for (int i = 0; i < Vectors; i++) {
      const int c = column(i, thread, threads);
      if (c < columns)
        vector[i] = load_once(row + c);
      else
        vector[i] = Vector{{0, 0, 0, 0}};
    }
  }

  JAXATOR_DEVICE void store(T* row, int columns, u32 thread, u32 threads) const {
#pragma unroll
    for (int i = 0; i < Vectors; i++) {
      const int c = column(i, thread, threads);
      if (c < columns) store_streamed(row + c, vector[i]);
    }
  }

  /// Makes the compiler forget what it unpacked, so that floats do not hold registers across a reduction.
  JAXATOR_DEVICE void forget_values() {
#pragma unroll
    for (int i = 0; i < Vectors; i++)
      asm volatile("" : "+r"(vector[i].word[0]), "+r"(vector[i].word[1]), "+r"(vector[i].word[2]), "+r"(vector[i].word[3]));
  }

  JAXATOR_DEVICE void values(int i, float (&out)[kElements]) const { unpack<T>(vector[i], out); }
  JAXATOR_DEVICE void set(int i, const float (&values)[kElements]) { vector[i] = pack<T>(values); }

  /// The sum rounded to T, as an addition of the arrays gives.
  JAXATOR_DEVICE void add(const RowPiece& other) {
#pragma unroll
    for (int i = 0; i < Vectors; i++) {
      float a[kElements], b[kElements];
      values(i, a), other.values(i, b);
#pragma unroll
      for (int e = 0; e < kElements; e++) a[e] += b[e];
      set(i, a);
    }
  }
};

/// Parameters that every row uses, as floats: through L1. Zeros past the end, ones without an array.
template <int N> JAXATOR_DEVICE void load_parameters(const float* parameters, int column, int columns, float (&out)[N]) {
#pragma unroll
  for (int e = 0; e < N; e += 4) {
    float four[4] = {1, 1, 1, 1};
    if (parameters != nullptr) {
      const Vector v = column < columns ? load_shared_by_rows(parameters + column + e) : Vector{{0, 0, 0, 0}};
      unpack<float>(v, four);
    }
#pragma unroll
    for (int j = 0; j < 4; j++) out[e + j] = four[j];
  }
}

/// One partial sum of a parameter's gradient for each group of rows, [partials, columns], summed in a fixed order. Block [32,
/// 32], a thread column for each parameter; grid (columns / 32).
JAXATOR_DEVICE void sum_partials(const float* partials, float* sums, int count, int columns) {
  const u32 x = thread_x(), y = thread_y(), shared = shared_base();
  const int column = static_cast<int>(block_x() * 32 + x);
  float sum = 0;
  if (column < columns)
#pragma unroll 4
    for (int p = static_cast<int>(y); p < count; p += 32) sum += partials[i64{p} * columns + column];
  // A row of 33: lanes then read a column of it from 32 banks.
  store_shared(shared + (x * 33 + y) * 4, sum);
  block_sync();
  float turned[1] = {load_shared(shared + (y * 33 + x) * 4)};
  warp_sum(turned);
  const int mine = static_cast<int>(block_x() * 32 + y);
  if (x == 0 && mine < columns) sums[mine] = turned[0];
}

}  // namespace jaxator::hopper
