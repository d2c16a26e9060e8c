/// @file
/// Rows of an array, for kernels that normalise or activate row by row: a thread holds vectors of 16 bytes of its row, `threads`
/// apart, so that a wave's accesses are contiguous.
#pragma once

#include "src/tile/cdna/memory.h"
#include "src/tile/cdna/reduce.h"

namespace jaxator::cdna {

/// What a thread of `threads` has of a row whose length is a multiple of a vector. Elements stay packed: half the registers.
template <class T, int Vectors> struct RowPiece {
  static constexpr int kElements = kVectorElements<T>;
  Vector vector[Vectors];

  JAXATOR_DEVICE static u32 column(int i, u32 thread, u32 threads) { return (thread + i * threads) * kElements; }

  /// Columns past the end are zeros.
  JAXATOR_DEVICE void load(const Span& row, u32 thread, u32 threads) {
#pragma unroll
    for (int i = 0; i < Vectors; i++) vector[i] = row.load_once(column(i, thread, threads) * sizeof(T));
  }

  JAXATOR_DEVICE void store(const Span& row, u32 thread, u32 threads) const {
#pragma unroll
    for (int i = 0; i < Vectors; i++) row.store_streamed(column(i, thread, threads) * sizeof(T), vector[i]);
  }

  JAXATOR_DEVICE void values(int i, float (&out)[kElements]) const { unpack<T>(vector[i], out); }
  JAXATOR_DEVICE void set(int i, const float (&values)[kElements]) { vector[i] = pack<T>(values); }

  /// Makes the compiler unpack the values again where they are used next, instead of keeping twice the registers until then.
  JAXATOR_DEVICE void forget_values() {
#pragma unroll
    for (Vector& v : vector) asm("" : "+v"(v));
  }

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

/// A row of an array of elements, by its address and the bytes that follow.
template <class T> JAXATOR_DEVICE Span row_of(const void JAXATOR_GLOBAL* array, i64 start, u32 columns) {
  return {static_cast<const T JAXATOR_GLOBAL*>(array) + start, static_cast<u32>(columns * sizeof(T))};
}

/// A parameter's values at the columns of a thread's piece; `otherwise` where there is no parameter.
template <class T, int Vectors>
JAXATOR_DEVICE void load_parameter(const float JAXATOR_GLOBAL* parameter, u32 columns, float otherwise, u32 thread, u32 threads,
                                   float (&out)[Vectors][kVectorElements<T>]) {
#pragma unroll
  for (int i = 0; i < Vectors; i++) {
    if (parameter != nullptr) {
      load_floats(Span(parameter, columns * 4), RowPiece<T, Vectors>::column(i, thread, threads), out[i]);
    } else {
#pragma unroll
      for (float& value : out[i]) value = otherwise;
    }
  }
}

/// Writes the block's partial sum of a parameter's gradient, [blocks, columns]. Where a wave has a row, those of the block's four
/// waves are added up first, in order.
template <class T, int Vectors>
JAXATOR_DEVICE void store_partials(float JAXATOR_GLOBAL* partials, u32 columns,
                                   const float (&sums)[Vectors][kVectorElements<T>]) {
  using Piece = RowPiece<T, Vectors>;
  const u32 thread = thread_x(), threads = threads_x();
  const Span partial(partials + i64{block_x()} * columns, columns * 4);
  if (threads > kWave) {
#pragma unroll
    for (int i = 0; i < Vectors; i++) store_floats(partial, Piece::column(i, thread, threads), sums[i]);
    return;
  }
  if constexpr (Vectors == 1) {
    constexpr u32 kRows = 4;
    JAXATOR_SHARED float shared[kRows][Piece::kElements][kWave];
    const u32 y = uniform(thread_y());
    block_sync();  // the call before, for another parameter, may still read
#pragma unroll
    for (int e = 0; e < Piece::kElements; e++) shared[y][e][thread] = sums[0][e];
    block_sync();
    if (y != 0) return;
    float all[Piece::kElements] = {};
#pragma unroll
    for (int e = 0; e < Piece::kElements; e++)
#pragma unroll
      for (u32 i = 0; i < kRows; i++) all[e] += shared[i][e][thread];
    store_floats(partial, Piece::column(0, thread, threads), all);
  }
}

/// Sums of partial sums of a parameter's gradient, [count, columns], in a fixed order. Block [64, 16], a thread column for each
/// column.
JAXATOR_DEVICE void sum_partials(const float JAXATOR_GLOBAL* partials, float JAXATOR_GLOBAL* sums, u32 count, u32 columns) {
  constexpr u32 kRows = 16;
  JAXATOR_SHARED float shared[kRows][kWave];
  const u32 x = thread_x(), y = uniform(thread_y()), column = block_x() * kWave + x;
  float sum = 0;
  if (column < columns)
#pragma unroll 4
    for (u32 p = y; p < count; p += kRows) sum += partials[i64{p} * columns + column];
  shared[y][x] = sum;
  block_sync();
  if (y != 0 || column >= columns) return;
  sum = 0;
#pragma unroll
  for (u32 i = 0; i < kRows; i++) sum += shared[i][x];
  sums[column] = sum;
}

}  // namespace jaxator::cdna
