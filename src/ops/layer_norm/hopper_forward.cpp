/// @file
/// Layer normalisation on Hopper, forward. threads_x() threads have a row, threads_y() rows are in a block (more than one only
/// where a warp has a row). The row is read once and stays in registers: what is left is memory traffic.
#include "src/ops/layer_norm/hopper.h"
#include "src/ops/layer_norm/hopper_moments.h"
#include "src/tile/hopper/row.h"

namespace jaxator::hopper {
namespace {

/// The row in `Vectors` vectors a thread: columns <= threads * Vectors * elements of a vector; addresses of rows multiples of 16.
template <class T, int Vectors> JAXATOR_DEVICE void forward_in_registers(const LayerNormForward& p) {
  using Piece = RowPiece<T, Vectors>;
  constexpr int kElements = Piece::kElements;
  const u32 thread = thread_x(), threads = threads_x();
  const i64 row = i64{block_x()} * threads_y() + thread_y();
  if (row >= p.rows) return;
  const i64 start = row * p.columns;

  const float pivot = pivot_of<T>(load_shared_by_rows(static_cast<const T*>(p.x) + start));
  Piece x;
  x.load(static_cast<const T*>(p.x) + start, p.columns, thread, threads);
  u32 turn = 0;
  float sums[2];
  const Moments moments = moments_of(pivot, p.inverse_columns, p.epsilon, sums, [&](float pivot, float (&sums)[2]) {
    sums[0] = sums[1] = 0;
    x.forget_values();
#pragma unroll
    for (int i = 0; i < Vectors; i++) {
      if (Piece::column(i, thread, threads) >= p.columns) continue;
      float v[kElements];
      x.values(i, v);
#pragma unroll
      for (int e = 0; e < kElements; e++) {
        const float d = v[e] - pivot;
        sums[0] += d;
        sums[1] += d * d;
      }
    }
    block_sum(sums, shared_base(), threads / 32, turn++);
  });
  x.forget_values();

#pragma unroll
  for (int i = 0; i < Vectors; i++) {
    const int c = Piece::column(i, thread, threads);
    if (c >= p.columns) continue;
    float v[kElements];
    x.values(i, v);
#pragma unroll
    for (int e = 0; e < kElements; e += 4) {
      float weight[4], bias[4];
      load_parameters(p.weight, c + e, p.columns, 1.0f, weight);
      load_parameters(p.bias, c + e, p.columns, 0.0f, bias);
#pragma unroll
      for (int j = 0; j < 4; j++) v[e + j] = moments.standardised(v[e + j]) * weight[j] + bias[j];
    }
    store_streamed(static_cast<T*>(p.y) + start + c, pack<T>(v));
  }
}

/// Rows of any length and alignment, element by element; the second reading finds the row in the cache.
template <class T> JAXATOR_DEVICE void forward_by_elements(const LayerNormForward& p) {
  const int thread = static_cast<int>(thread_x()), threads = static_cast<int>(threads_x());
  const i64 row = i64{block_x()} * threads_y() + thread_y();
  if (row >= p.rows) return;
  const T* x = static_cast<const T*>(p.x) + row * p.columns;
  T* y = static_cast<T*>(p.y) + row * p.columns;

  u32 turn = 0;
  float sums[2];
  const Moments moments = moments_of(to_float(x[0]), p.inverse_columns, p.epsilon, sums, [&](float pivot, float (&sums)[2]) {
    sums[0] = sums[1] = 0;
    for (int c = thread; c < p.columns; c += threads) {
      const float d = to_float(x[c]) - pivot;
      sums[0] += d, sums[1] += d * d;
    }
    block_sum(sums, shared_base(), static_cast<u32>(threads) / 32, turn++);
  });
  for (int c = thread; c < p.columns; c += threads) {
    const float weight = p.weight != nullptr ? p.weight[c] : 1.0f, bias = p.bias != nullptr ? p.bias[c] : 0.0f;
    y[c] = from_float<T>(moments.standardised(to_float(x[c])) * weight + bias);
  }
}

}  // namespace

#define JAXATOR_ENTRIES(suffix, T)                                                                               \
  JAXATOR_KERNEL(640, 2) layer_norm_forward2_##suffix(const JAXATOR_GRID_CONSTANT LayerNormForward p) {          \
    forward_in_registers<T, 2>(p);                                                                               \
  }                                                                                                              \
  JAXATOR_KERNEL(640, 2) layer_norm_forward4_##suffix(const JAXATOR_GRID_CONSTANT LayerNormForward p) {          \
    forward_in_registers<T, 4>(p);                                                                               \
  }                                                                                                              \
  JAXATOR_KERNEL(1024, 1) layer_norm_forward_elements_##suffix(const JAXATOR_GRID_CONSTANT LayerNormForward p) { \
    forward_by_elements<T>(p);                                                                                   \
  }
JAXATOR_ENTRIES(f32, float)
JAXATOR_ENTRIES(bf16, Bf16)
JAXATOR_ENTRIES(f16, F16)

}  // namespace jaxator::hopper
