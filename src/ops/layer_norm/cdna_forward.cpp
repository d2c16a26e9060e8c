/// @file
/// Layer normalisation on CDNA, forward. threads_x() threads have a row, threads_y() rows are in a block (more than one only
/// where a wave has a row). The row is read once and stays in registers: what is left is memory traffic.
#include "src/ops/layer_norm/cdna.h"
#include "src/ops/layer_norm/cdna_moments.h"

namespace jaxator::cdna {
namespace {

/// The row in `Vectors` vectors a thread: columns <= threads * Vectors * elements of a vector; addresses of rows multiples of 16.
template <class T, int Vectors> JAXATOR_DEVICE void forward_in_registers(const LayerNormForward& p) {
  using Piece = RowPiece<T, Vectors>;
  const u32 thread = thread_x(), threads = threads_x();
  const i64 row = i64{block_x()} * threads_y() + uniform(thread_y());
  if (row >= p.rows) return;
  const i64 start = row * p.columns;

  // Before the row: the parameters are then there when they are needed, and waiting for the row waits for no younger load.
  float weight[Vectors][Piece::kElements], bias[Vectors][Piece::kElements];
  load_parameter<T>(p.weight, p.columns, 1.0f, thread, threads, weight);
  load_parameter<T>(p.bias, p.columns, 0.0f, thread, threads, bias);
  Piece x;
  x.load(row_of<T>(p.x, start, p.columns), thread, threads);

  const u32 waves = Vectors == 2 ? 1 : threads / kWave;  // two vectors a thread: a wave has a row
  const Shares shares(p.columns, kWave * Piece::kElements, waves == 1 ? 0 : uniform(thread / kWave), waves, p.inverse_columns);
  const float first = broadcast(first_of<T>(x.vector[0]), 0);
  const WaveMoments wave = moments_of_wave<Pair>(first, shares, [&](float origin, auto&& add) {
    differences(x, p.columns, thread, threads, origin, [&](int, int, Pair d) { add(d); });
  });
  const Moments moments = RowMoments<0>()(wave, nullptr, shares, p.inverse_columns, p.epsilon);

#pragma unroll
  for (int i = 0; i < Vectors; i++) {
    float v[Piece::kElements];
    x.values(i, v);
#pragma unroll
    for (int e = 0; e < Piece::kElements; e++) v[e] = moments.standardised(v[e]) * weight[i][e] + bias[i][e];
    x.set(i, v);
  }
  x.store(row_of<T>(p.y, start, p.columns), thread, threads);
}

/// Rows of any length and alignment, element by element; the later readings find the row in the cache.
template <class T> JAXATOR_DEVICE void forward_by_elements(const LayerNormForward& p) {
  const u32 thread = thread_x(), threads = threads_x();
  const i64 row = i64{block_x()} * threads_y() + uniform(thread_y());
  if (row >= p.rows) return;
  const T JAXATOR_GLOBAL* x = static_cast<const T JAXATOR_GLOBAL*>(p.x) + row * p.columns;
  T JAXATOR_GLOBAL* y = static_cast<T JAXATOR_GLOBAL*>(p.y) + row * p.columns;

  const Shares shares(p.columns, kWave, uniform(thread / kWave), threads / kWave, p.inverse_columns);
  const WaveMoments wave = moments_of_wave<float>(to_float(T(x[0])), shares, [&](float origin, auto&& add) {
    for (u32 c = thread; c < p.columns; c += threads) add(to_float(T(x[c])) - origin);
  });
  const Moments moments = RowMoments<0>()(wave, nullptr, shares, p.inverse_columns, p.epsilon);
  for (u32 c = thread; c < p.columns; c += threads) {
    const float weight = p.weight != nullptr ? p.weight[c] : 1.0f, bias = p.bias != nullptr ? p.bias[c] : 0.0f;
    y[c] = from_float<T>(moments.standardised(to_float(T(x[c]))) * weight + bias);
  }
}

}  // namespace

#define JAXATOR_ENTRIES(suffix, T)                                                                         \
  JAXATOR_KERNEL(256) layer_norm_forward2_##suffix(LayerNormForward p) { forward_in_registers<T, 2>(p); }  \
  JAXATOR_KERNEL(1024) layer_norm_forward4_##suffix(LayerNormForward p) { forward_in_registers<T, 4>(p); } \
  JAXATOR_KERNEL(1024) layer_norm_forward_elements_##suffix(LayerNormForward p) { forward_by_elements<T>(p); }
JAXATOR_ENTRIES(f32, float)
JAXATOR_ENTRIES(bf16, Bf16)
JAXATOR_ENTRIES(f16, F16)

}  // namespace jaxator::cdna
