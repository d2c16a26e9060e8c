/// @file
/// Layer normalisation on CDNA, backward. With h = standardised x, q its scale and g = dy * weight:
///   dx = q (g - mean(g) - h mean(g h))      dweight = sum over rows of dy h      dbias = sum over rows of dy
/// Blocks take rows in turns and keep their sums for dweight and dbias in registers until the end.
#include "src/ops/layer_norm/cdna.h"
#include "src/ops/layer_norm/cdna_moments.h"

namespace jaxator::cdna {
namespace {

/// What dx needs of one row: q g - level - h along.
struct Projection {
  Moments moments;
  float level, along;

  /// Of the means over the row, of g and of g times the differences from the mean.
  JAXATOR_DEVICE Projection(const Moments& m, const float (&means)[2])
      : moments(m), level(m.scale * means[0]), along(m.scale * m.scale * means[1]) {}

  JAXATOR_DEVICE float gradient(float h, float g) const { return (moments.scale * g - level) - along * h; }
};

/// What is read of a row; zeros past the last row. No branch is around the loads, which then read nothing: after one the compiler
/// would wait for the next row's loads before it starts on this row.
template <class T, int Vectors> struct Inputs {
  RowPiece<T, Vectors> x, dy;

  JAXATOR_DEVICE void load(const LayerNormBackward& p, i64 row, u32 thread, u32 threads) {
    const i64 start = row * p.columns;
    const u32 columns = row < p.rows ? p.columns : 0;
    x.load(row_of<T>(p.x, start, columns), thread, threads);
    dy.load(row_of<T>(p.dy, start, columns), thread, threads);
  }
};

/// The row in `Vectors` vectors a thread: columns <= threads * Vectors * elements of a vector; addresses of rows multiples of 16.
template <class T, int Vectors> struct Backward {
  using Piece = RowPiece<T, Vectors>;
  static constexpr int kElements = Piece::kElements;

  const LayerNormBackward& p;
  const u32 thread = thread_x(), threads = threads_x();
  const Shares shares;
  RowMoments<2> moments_of_row;
  float weight[Vectors][kElements], dweight[Vectors][kElements] = {}, dbias[Vectors][kElements] = {};

  JAXATOR_DEVICE explicit Backward(const LayerNormBackward& p)
      : p(p), shares(p.columns, kWave * kElements, uniform(thread / kWave), threads / kWave, p.inverse_columns) {
    load_parameter<T>(p.weight, p.columns, 1.0f, thread, threads, weight);
  }

  JAXATOR_DEVICE void row(Inputs<T, Vectors>& in, i64 row) {
    const auto for_differences = [&](float origin, auto&& body) { differences(in.x, p.columns, thread, threads, origin, body); };
    const float first = broadcast(first_of<T>(in.x.vector[0]), 0);
    const WaveMoments wave = moments_of_wave<Pair>(
        first, shares, [&](float origin, auto&& add) { for_differences(origin, [&](int, int, Pair d) { add(d); }); });
    Pair g_sum = 0, along_sum = 0;  // of g, and of g times the differences from the wave's pivot
    float dy[kElements];
    for_differences(wave.pivot, [&](int i, int e, Pair d) {
      if (e == 0) in.dy.values(i, dy);
      const Pair g = Pair{dy[e], dy[e + 1]} * Pair{weight[i][e], weight[i][e + 1]};
      g_sum += g, along_sum += g * d;
    });
    float sums[2] = {wave_sum(sum_of(g_sum)), wave_sum(sum_of(along_sum))};
    const Moments moments = moments_of_row(wave, sums, shares, p.inverse_columns, p.epsilon);
    const Projection projection(moments, sums);
    if constexpr (Vectors > 1) in.x.forget_values(), in.dy.forget_values();
    const Span out = row_of<T>(p.dx, row * p.columns, p.columns);
#pragma unroll
    for (int i = 0; i < Vectors; i++) {
      float x[kElements], dx[kElements];
      in.x.values(i, x), in.dy.values(i, dy);
#pragma unroll
      for (int e = 0; e < kElements; e++) {
        const float h = moments.standardised(x[e]);
        dweight[i][e] += dy[e] * h;
        dbias[i][e] += dy[e];
        dx[e] = projection.gradient(h, dy[e] * weight[i][e]);
      }
      out.store_streamed(Piece::column(i, thread, threads) * sizeof(T), pack<T>(dx));
    }
  }
};

/// Two rows in turns: the loads of one are under way while the other is worked on.
template <class T, int Vectors> JAXATOR_DEVICE void backward_in_registers(const LayerNormBackward& p) {
  Backward<T, Vectors> backward(p);
  const u32 thread = backward.thread, threads = backward.threads;
  i64 row = i64{block_x()} * threads_y() + uniform(thread_y());
  Inputs<T, Vectors> even, odd;
  even.load(p, row, thread, threads);
#pragma unroll 1
  while (row < p.rows) {
    odd.load(p, row + p.groups, thread, threads);
    backward.row(even, row);
    row += p.groups;
    if (row >= p.rows) break;
    even.load(p, row + p.groups, thread, threads);
    backward.row(odd, row);
    row += p.groups;
  }
  if (p.dweight_partials != nullptr) store_partials<T>(p.dweight_partials, p.columns, backward.dweight);
  if (p.dbias_partials != nullptr) store_partials<T>(p.dbias_partials, p.columns, backward.dbias);
}

/// Any length and alignment. A thread has the same columns in every row, so its partial sums need no other thread.
template <class T> JAXATOR_DEVICE void backward_by_elements(const LayerNormBackward& p) {
  const u32 thread = thread_x(), threads = threads_x();
  const i64 group = i64{block_x()} * threads_y() + uniform(thread_y());
  float JAXATOR_GLOBAL *dweight = p.dweight_partials + group * p.columns, *dbias = p.dbias_partials + group * p.columns;
  for (u32 c = thread; c < p.columns; c += threads) {
    if (p.dweight_partials != nullptr) dweight[c] = 0;
    if (p.dbias_partials != nullptr) dbias[c] = 0;
  }
  const Shares shares(p.columns, kWave, uniform(thread / kWave), threads / kWave, p.inverse_columns);
  RowMoments<2> moments_of_row;
#pragma unroll 1
  for (i64 row = group; row < p.rows; row += p.groups) {
    const i64 start = row * p.columns;
    const T JAXATOR_GLOBAL* x = static_cast<const T JAXATOR_GLOBAL*>(p.x) + start;
    const T JAXATOR_GLOBAL* dy = static_cast<const T JAXATOR_GLOBAL*>(p.dy) + start;
    const auto weighted = [&](u32 c) { return to_float(T(dy[c])) * (p.weight != nullptr ? p.weight[c] : 1.0f); };
    const WaveMoments wave = moments_of_wave<float>(to_float(T(x[0])), shares, [&](float origin, auto&& add) {
      for (u32 c = thread; c < p.columns; c += threads) add(to_float(T(x[c])) - origin);
    });
    float sums[2] = {0, 0};
    for (u32 c = thread; c < p.columns; c += threads) {
      const float g = weighted(c);
      sums[0] += g, sums[1] += g * (to_float(T(x[c])) - wave.pivot);
    }
    sums[0] = wave_sum(sums[0]), sums[1] = wave_sum(sums[1]);
    const Moments moments = moments_of_row(wave, sums, shares, p.inverse_columns, p.epsilon);
    const Projection projection(moments, sums);
    for (u32 c = thread; c < p.columns; c += threads) {
      const float h = moments.standardised(to_float(T(x[c]))), d = to_float(T(dy[c]));
      (static_cast<T JAXATOR_GLOBAL*>(p.dx) + start)[c] = from_float<T>(projection.gradient(h, weighted(c)));
      if (p.dweight_partials != nullptr) dweight[c] += d * h;
      if (p.dbias_partials != nullptr) dbias[c] += d;
    }
  }
}

}  // namespace

#define JAXATOR_ENTRIES(suffix, T)                                                                            \
  JAXATOR_KERNEL(1024) layer_norm_backward1_##suffix(LayerNormBackward p) { backward_in_registers<T, 1>(p); } \
  JAXATOR_KERNEL(512) layer_norm_backward4_##suffix(LayerNormBackward p) { backward_in_registers<T, 4>(p); }  \
  JAXATOR_KERNEL(1024) layer_norm_backward_elements_##suffix(LayerNormBackward p) { backward_by_elements<T>(p); }
JAXATOR_ENTRIES(f32, float)
JAXATOR_ENTRIES(bf16, Bf16)
JAXATOR_ENTRIES(f16, F16)

JAXATOR_KERNEL(1024)
layer_norm_sum_partials(const float JAXATOR_GLOBAL* partials, float JAXATOR_GLOBAL* sums, u32 count, u32 columns) {
  sum_partials(partials, sums, count, columns);
}

}  // namespace jaxator::cdna
