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

/// Parameters that every row uses, as floats: through L1. Zeros past the end; without an array all are `absent`.
template <int N>
JAXATOR_DEVICE void load_parameters(const float* parameters, int column, int columns, float absent, float (&out)[N]) {
#pragma unroll
  for (int e = 0; e < N; e += 4) {
    float four[4] = {absent, absent, absent, absent};
    if (parameters != nullptr) {
      const Vector v = column < columns ? load_shared_by_rows(parameters + column + e) : Vector{{0, 0, 0, 0}};
      unpack<float>(v, four);
    }
#pragma unroll
    for (int j = 0; j < 4; j++) out[e + j] = four[j];
  }
}

/// A parameter for kernels whose threads have the same columns in every row, in the layout of RowPiece: kept in registers, or
/// (where those are scarce) read again for each row.
template <class T, int Vectors, bool keep> class RowParameter {
 public:
  JAXATOR_DEVICE RowParameter(const float* values, int columns, float absent)
      : values_(values), columns_(columns), absent_(absent) {
    if constexpr (keep)
#pragma unroll
      for (int i = 0; i < Vectors; i++)
        load_parameters(values, RowPiece<T, Vectors>::column(i, thread_x(), threads_x()), columns, absent, kept_[i]);
  }

  /// Of elements e to e + 3 of vector i, which begins at this column.
  JAXATOR_DEVICE void four(int i, int column, int e, float (&out)[4]) const {
    if constexpr (keep) {
#pragma unroll
      for (int j = 0; j < 4; j++) out[j] = kept_[i][e + j];
    } else {
      load_parameters(values_, column + e, columns_, absent_, out);
    }
  }

 private:
  const float* values_;
  const int columns_;
  const float absent_;
  float kept_[keep ? Vectors : 1][kVectorElements<T>];
};

/// Sums of partial sums of parameters' gradients, [parameters, count, columns], in a fixed order. Block [32, 32], a thread column
/// for each column; grid [columns / 32, parameters].
JAXATOR_DEVICE void sum_partials(const float* partials, float* first, float* second, int count, int columns) {
  partials += i64{block_y()} * count * columns;
  float* sums = block_y() == 0 ? first : second;
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
