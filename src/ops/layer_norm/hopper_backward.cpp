/// @file
/// Layer normalisation on Hopper, backward. With h = standardised x, q its scale and g = dy * weight:
///   dx = q (g - mean(g) - h mean(g h))      dweight = sum over rows of dy h      dbias = sum over rows of dy
/// Blocks take rows in turns and keep their sums for dweight and dbias in registers until the end.
#include "src/ops/layer_norm/hopper.h"
#include "src/ops/layer_norm/hopper_moments.h"
#include "src/tile/hopper/row_stream.h"

namespace jaxator::hopper {
namespace {

/// What dx needs of one row: q g - level - h along.
struct Projection {
  Moments moments;
  float level, along;

  /// Of the sums of g, and of g times the differences from the pivot.
  JAXATOR_DEVICE Projection(const Moments& m, float gradients, float along_sum, float inverse_columns)
      : moments(m),
        level(m.scale * gradients * inverse_columns),
        along(m.scale * m.scale * (along_sum - m.off * gradients) * inverse_columns) {}

  JAXATOR_DEVICE float gradient(float h, float g) const { return (moments.scale * g - level) - along * h; }
};

constexpr u32 kSumBytes = kBlockSumBytes<4>;

/// The row in `Vectors` vectors a thread: columns <= threads * Vectors * elements of a vector; addresses of rows multiples of 16.
template <class T, int Vectors> struct Backward {
  static constexpr int kElements = kVectorElements<T>;

  const LayerNormBackward& p;
  const u32 thread = thread_x(), threads = threads_x();
  const RowParameter<T, Vectors, Vectors <= 2> weights;
  float dweight[Vectors][kElements] = {}, dbias[Vectors][kElements] = {};

  JAXATOR_DEVICE explicit Backward(const LayerNormBackward& p) : p(p), weights(p.weight, p.columns, 1.0f) {}

  /// Calls body(i, c, e, x, dy, weight) for each element of this thread's part of the row.
  template <class Body> JAXATOR_DEVICE void for_elements(const RowStream<T>& rows, Body&& body) const {
#pragma unroll
    for (int i = 0; i < Vectors; i++) {
      const int c = RowPiece<T, Vectors>::column(i, thread, threads);
      if (c >= p.columns) continue;
      float x[kElements], dy[kElements];
      unpack<T>(rows.load(0, c), x), unpack<T>(rows.load(1, c), dy);
#pragma unroll
      for (int e = 0; e < kElements; e += 4) {
        float weight[4];
        weights.four(i, c, e, weight);
#pragma unroll
        for (int j = 0; j < 4; j++) body(i, c, e + j, x[e + j], dy[e + j], weight[j]);
      }
    }
  }

  JAXATOR_DEVICE void row(const RowStream<T>& rows, u32& turn) {
    float sums[4];  // of the differences from the pivot, of their squares, of g, of g times the differences
    const Moments moments =
        moments_of(pivot_of<T>(rows.load(0, 0)), p.inverse_columns, p.epsilon, sums, [&](float pivot, float (&sums)[4]) {
          sums[0] = sums[1] = sums[2] = sums[3] = 0;
          for_elements(rows, [&](int, int, int, float x, float dy, float weight) {
            const float d = x - pivot, g = dy * weight;
            sums[0] += d, sums[1] += d * d, sums[2] += g, sums[3] += g * d;
          });
          block_sum(sums, shared_base(), threads / 32, turn++);
        });
    rows.refill();
    const Projection projection(moments, sums[2], sums[3], p.inverse_columns);
    float dx[kElements];
    for_elements(rows, [&](int i, int c, int e, float x, float dy, float weight) {
      const float h = projection.moments.standardised(x);
      dweight[i][e] += dy * h;
      dbias[i][e] += dy;
      dx[e] = projection.gradient(h, dy * weight);
      if (e == kElements - 1) store_streamed(static_cast<T*>(p.dx) + rows.row() * p.columns + c, pack<T>(dx));
    });
  }
};

template <class T, int Vectors> JAXATOR_DEVICE void backward_in_registers(const LayerNormBackward& p) {
  const u32 shared = shared_base() + kSumBytes;
  RowStream<T> rows(shared, p.x, p.dy, nullptr, p.rows, p.columns, p.stages);
  Backward<T, Vectors> backward(p);
#pragma unroll 1
  for (u32 turn = 0; rows.has_row(); rows.next()) {
    rows.wait();
    backward.row(rows, turn);
  }
  if (p.dweight_partials != nullptr) store_partials<T>(backward.dweight, p.dweight_partials, p.columns, shared);
  if (p.dbias_partials != nullptr) store_partials<T>(backward.dbias, p.dbias_partials, p.columns, shared);
}

/// Any length and alignment. A thread has the same columns in every row, so its partial sums need no other thread.
template <class T> JAXATOR_DEVICE void backward_by_elements(const LayerNormBackward& p) {
  const int thread = static_cast<int>(thread_x()), threads = static_cast<int>(threads_x());
  const u32 warps = static_cast<u32>(threads) / 32;
  const i64 group = i64{block_x()} * threads_y() + thread_y(), groups = i64{blocks_x()} * threads_y();
  float *dweight = p.dweight_partials + group * p.columns, *dbias = p.dbias_partials + group * p.columns;
  for (int c = thread; c < p.columns; c += threads) {
    if (p.dweight_partials != nullptr) dweight[c] = 0;
    if (p.dbias_partials != nullptr) dbias[c] = 0;
  }
  u32 turn = 0;
#pragma unroll 1
  for (i64 row = group; row < p.rows; row += groups) {
    const T *x = static_cast<const T*>(p.x) + row * p.columns, *dy = static_cast<const T*>(p.dy) + row * p.columns;
    const auto weighted = [&](int c) { return to_float(dy[c]) * (p.weight != nullptr ? p.weight[c] : 1.0f); };
    float sums[4];
    const Moments moments = moments_of(to_float(x[0]), p.inverse_columns, p.epsilon, sums, [&](float pivot, float (&sums)[4]) {
      sums[0] = sums[1] = sums[2] = sums[3] = 0;
      for (int c = thread; c < p.columns; c += threads) {
        const float d = to_float(x[c]) - pivot, g = weighted(c);
        sums[0] += d, sums[1] += d * d, sums[2] += g, sums[3] += g * d;
      }
      block_sum(sums, shared_base(), warps, turn++);
    });
    const Projection projection(moments, sums[2], sums[3], p.inverse_columns);
    for (int c = thread; c < p.columns; c += threads) {
      const float h = projection.moments.standardised(to_float(x[c])), d = to_float(dy[c]);
      static_cast<T*>(p.dx)[row * p.columns + c] = from_float<T>(projection.gradient(h, weighted(c)));
      if (p.dweight_partials != nullptr) dweight[c] += d * h;
      if (p.dbias_partials != nullptr) dbias[c] += d;
    }
  }
}

}  // namespace

#define JAXATOR_ENTRIES(suffix, T)                                                                                 \
  JAXATOR_KERNEL(512, 1) layer_norm_backward2_##suffix(const JAXATOR_GRID_CONSTANT LayerNormBackward p) {          \
    backward_in_registers<T, 2>(p);                                                                                \
  }                                                                                                                \
  JAXATOR_KERNEL(512, 1) layer_norm_backward4_##suffix(const JAXATOR_GRID_CONSTANT LayerNormBackward p) {          \
    backward_in_registers<T, 4>(p);                                                                                \
  }                                                                                                                \
  JAXATOR_KERNEL(1024, 1) layer_norm_backward_elements_##suffix(const JAXATOR_GRID_CONSTANT LayerNormBackward p) { \
    backward_by_elements<T>(p);                                                                                    \
  }
JAXATOR_ENTRIES(f32, float)
JAXATOR_ENTRIES(bf16, Bf16)
JAXATOR_ENTRIES(f16, F16)

JAXATOR_KERNEL(1024, 1) layer_norm_sum_partials(const float* partials, float* first, float* second, int count, int columns) {
  sum_partials(partials, first, second, count, columns);
}

}  // namespace jaxator::hopper
