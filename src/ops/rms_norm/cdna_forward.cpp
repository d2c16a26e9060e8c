/// @file
/// RMS normalisation on CDNA, forward. threads_x() threads have a row, threads_y() rows are in a block (more than one only where
/// a wave has a row). The row is read once and stays in registers: what is left is memory traffic.
#include "src/ops/rms_norm/cdna.h"
#include "src/tile/cdna/row.h"

namespace jaxator::cdna {
namespace {

/// The row in `Vectors` vectors a thread: columns <= threads * Vectors * elements of a vector; addresses of rows multiples of 16.
template <class T, int Vectors> JAXATOR_DEVICE void forward_in_registers(const RmsNormForward& p) {
  using Piece = RowPiece<T, Vectors>;
  const u32 thread = thread_x(), threads = threads_x();
  const i64 row = i64{block_x()} * threads_y() + uniform(thread_y());
  if (row >= p.rows) return;
  const i64 start = row * p.columns;

  // Before the row: the weights are then there when they are needed, and waiting for the row waits for no younger load.
  float weight[Vectors][Piece::kElements];
  load_parameter<T>(p.weight, p.columns, 1.0f, thread, threads, weight);
  Piece s;
  s.load(row_of<T>(p.x, start, p.columns), thread, threads);
  if (p.residual != nullptr) {
    Piece residual;
    residual.load(row_of<T>(p.residual, start, p.columns), thread, threads);
    s.add(residual);
    s.store(row_of<T>(p.sum, start, p.columns), thread, threads);
  }

  float squares[1] = {0};
#pragma unroll
  for (int i = 0; i < Vectors; i++) {
    float v[Piece::kElements];
    s.values(i, v);
#pragma unroll
    for (int e = 0; e < Piece::kElements; e++) squares[0] += v[e] * v[e];
  }
  BlockSum<1>()(squares, uniform(thread / kWave), threads / kWave);
  const float scale = reciprocal_sqrt(squares[0] * p.inverse_columns + p.epsilon);

#pragma unroll
  for (int i = 0; i < Vectors; i++) {
    float v[Piece::kElements];
    s.values(i, v);
#pragma unroll
    for (int e = 0; e < Piece::kElements; e++) v[e] = v[e] * scale * weight[i][e];
    s.set(i, v);
  }
  s.store(row_of<T>(p.y, start, p.columns), thread, threads);
}

/// Rows of any length and alignment, element by element; the second reading finds the row in the cache.
template <class T> JAXATOR_DEVICE void forward_by_elements(const RmsNormForward& p) {
  const u32 thread = thread_x(), threads = threads_x();
  const i64 row = i64{block_x()} * threads_y() + uniform(thread_y());
  if (row >= p.rows) return;
  const i64 start = row * p.columns;
  const T JAXATOR_GLOBAL* x = static_cast<const T JAXATOR_GLOBAL*>(p.x) + start;
  const T JAXATOR_GLOBAL* residual = static_cast<const T JAXATOR_GLOBAL*>(p.residual) + start;
  auto element = [&](u32 c) {
    float v = to_float(T(x[c]));
    if (p.residual != nullptr) v = to_float(from_float<T>(v + to_float(T(residual[c]))));
    return v;
  };
  float squares[1] = {0};
  for (u32 c = thread; c < p.columns; c += threads) {
    const float v = element(c);
    squares[0] += v * v;
  }
  BlockSum<1>()(squares, uniform(thread / kWave), threads / kWave);
  const float scale = reciprocal_sqrt(squares[0] * p.inverse_columns + p.epsilon);
  for (u32 c = thread; c < p.columns; c += threads) {
    const float v = element(c);
    if (p.residual != nullptr) (static_cast<T JAXATOR_GLOBAL*>(p.sum) + start)[c] = from_float<T>(v);
    (static_cast<T JAXATOR_GLOBAL*>(p.y) + start)[c] = from_float<T>(v * scale * (p.weight != nullptr ? p.weight[c] : 1.0f));
  }
}

}  // namespace

#define JAXATOR_ENTRIES(suffix, T)                                                                     \
  JAXATOR_KERNEL(256) rms_norm_forward2_##suffix(RmsNormForward p) { forward_in_registers<T, 2>(p); }  \
  JAXATOR_KERNEL(1024) rms_norm_forward4_##suffix(RmsNormForward p) { forward_in_registers<T, 4>(p); } \
  JAXATOR_KERNEL(1024) rms_norm_forward_elements_##suffix(RmsNormForward p) { forward_by_elements<T>(p); }
JAXATOR_ENTRIES(f32, float)
JAXATOR_ENTRIES(bf16, Bf16)
JAXATOR_ENTRIES(f16, F16)

}  // namespace jaxator::cdna
