/// @file
/// RMS normalisation on Hopper, forward. threads_x() threads have a row, threads_y() rows are in a block (more than one only
/// where a warp has a row). The row is read once and stays in registers: what is left is memory traffic.
#include "src/ops/rms_norm/hopper.h"
#include "src/tile/hopper/math.h"
#include "src/tile/hopper/row.h"

namespace jaxator::hopper {
namespace {

/// The row in `Vectors` vectors a thread: columns <= threads * Vectors * elements of a vector; addresses of rows multiples of 16.
template <class T, int Vectors> JAXATOR_DEVICE void forward_in_registers(const RmsNormForward& p) {
  using Piece = RowPiece<T, Vectors>;
  const u32 thread = thread_x(), threads = threads_x();
  const i64 row = i64{block_x()} * threads_y() + thread_y();
  if (row >= p.rows) return;
  const i64 start = row * p.columns;

  Piece s;
  s.load(static_cast<const T*>(p.x) + start, p.columns, thread, threads);
  if (p.residual != nullptr) {
    Piece residual;
    residual.load(static_cast<const T*>(p.residual) + start, p.columns, thread, threads);
    s.add(residual);
    s.store(static_cast<T*>(p.sum) + start, p.columns, thread, threads);
  }

  float squares[1] = {0};
#pragma unroll
  for (int i = 0; i < Vectors; i++) {
    float v[Piece::kElements];
    s.values(i, v);
#pragma unroll
    for (int e = 0; e < Piece::kElements; e++) squares[0] += v[e] * v[e];
  }
  block_sum(squares, shared_base(), threads / 32, 0);
  const float scale = rsqrt_approx(squares[0] * p.inverse_columns + p.epsilon);

#pragma unroll
  for (int i = 0; i < Vectors; i++) {
    const int c = Piece::column(i, thread, threads);
    if (c >= p.columns) continue;
    float v[Piece::kElements], weight[Piece::kElements];
    s.values(i, v);
    load_parameters(p.weight, c, p.columns, 1.0f, weight);
#pragma unroll
    for (int e = 0; e < Piece::kElements; e++) v[e] = v[e] * scale * weight[e];
    store_streamed(static_cast<T*>(p.y) + start + c, pack<T>(v));
  }
}

/// Rows of any length and alignment, element by element; the second reading finds the row in the cache.
template <class T> JAXATOR_DEVICE void forward_by_elements(const RmsNormForward& p) {
  const int thread = static_cast<int>(thread_x()), threads = static_cast<int>(threads_x());
  const i64 row = i64{block_x()} * threads_y() + thread_y();
  if (row >= p.rows) return;
  const i64 start = row * p.columns;
  const T* x = static_cast<const T*>(p.x) + start;
  const T* residual = static_cast<const T*>(p.residual) + start;
  auto element = [&](int c) {
    float v = to_float(x[c]);
    if (p.residual != nullptr) v = to_float(from_float<T>(v + to_float(residual[c])));
    return v;
  };
  float squares[1] = {0};
  for (int c = thread; c < p.columns; c += threads) {
    const float v = element(c);
    squares[0] += v * v;
  }
  block_sum(squares, shared_base(), static_cast<u32>(threads) / 32, 0);
  const float scale = rsqrt_approx(squares[0] * p.inverse_columns + p.epsilon);
  for (int c = thread; c < p.columns; c += threads) {
    const float v = element(c);
    if (p.residual != nullptr) static_cast<T*>(p.sum)[start + c] = from_float<T>(v);
    static_cast<T*>(p.y)[start + c] = from_float<T>(v * scale * (p.weight != nullptr ? p.weight[c] : 1.0f));
  }
}

}  // namespace

#define JAXATOR_ENTRIES(suffix, T)                                                                           \
  JAXATOR_KERNEL(1024, 1) rms_norm_forward2_##suffix(const JAXATOR_GRID_CONSTANT RmsNormForward p) {         \
    forward_in_registers<T, 2>(p);                                                                           \
  }                                                                                                          \
  JAXATOR_KERNEL(1024, 1) rms_norm_forward4_##suffix(const JAXATOR_GRID_CONSTANT RmsNormForward p) {         \
    forward_in_registers<T, 4>(p);                                                                           \
  }                                                                                                          \
  JAXATOR_KERNEL(1024, 1) rms_norm_forward_elements_##suffix(const JAXATOR_GRID_CONSTANT RmsNormForward p) { \
    forward_by_elements<T>(p);                                                                               \
  }
JAXATOR_ENTRIES(f32, float)
JAXATOR_ENTRIES(bf16, Bf16)
JAXATOR_ENTRIES(f16, F16)

}  // namespace jaxator::hopper
