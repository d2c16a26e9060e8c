/// @file
/// RMS normalisation on Hopper, backward. With r = 1 / sqrt(mean(s^2) + epsilon) and g = dy * weight:
///   dx = r g - s r^3 mean(g s) (+ dsum)      dweight = sum over rows of dy s r
/// Blocks take rows in turns and keep their sums for dweight in registers until the end.
#include "src/ops/rms_norm/hopper.h"
#include "src/tile/hopper/math.h"
#include "src/tile/hopper/row.h"

namespace jaxator::hopper {
namespace {

template <class T, int Vectors> struct Backward {
  using Piece = RowPiece<T, Vectors>;
  static constexpr int kElements = Piece::kElements;

  const RmsNormBackward& p;
  const u32 thread = thread_x(), threads = threads_x();
  float dweight[Vectors][kElements] = {};

  JAXATOR_DEVICE void load(i64 row, Piece& s, Piece& dy) const {
    s.load(static_cast<const T*>(p.sum) + row * p.columns, p.columns, thread, threads);
    dy.load(static_cast<const T*>(p.dy) + row * p.columns, p.columns, thread, threads);
  }

  JAXATOR_DEVICE void row(i64 row, Piece s, Piece dy, u32 turn) {
    float sums[2] = {0, 0};  // of s^2 and of g s
#pragma unroll
    for (int i = 0; i < Vectors; i++) {
      float v[kElements], d[kElements], weight[kElements];
      s.values(i, v), dy.values(i, d);
      load_parameters(p.weight, Piece::column(i, thread, threads), p.columns, weight);
#pragma unroll
      for (int e = 0; e < kElements; e++) {
        sums[0] += v[e] * v[e];
        sums[1] += d[e] * weight[e] * v[e];
      }
    }
    block_sum(sums, shared_base(), threads / 32, turn);
    s.forget_values(), dy.forget_values();
    const float inverse = 1.0f / static_cast<float>(p.columns);
    const float r = rsqrt_approx(sums[0] * inverse + p.epsilon), pull = r * r * r * sums[1] * inverse;
    Piece dx;
    if (p.dsum != nullptr) dx.load(static_cast<const T*>(p.dsum) + row * p.columns, p.columns, thread, threads);
#pragma unroll
    for (int i = 0; i < Vectors; i++) {
      float v[kElements], d[kElements], weight[kElements], out[kElements] = {};
      s.values(i, v), dy.values(i, d);
      if (p.dsum != nullptr) dx.values(i, out);
      load_parameters(p.weight, Piece::column(i, thread, threads), p.columns, weight);
#pragma unroll
      for (int e = 0; e < kElements; e++) {
        dweight[i][e] += d[e] * v[e] * r;
        out[e] += r * d[e] * weight[e] - v[e] * pull;
      }
      dx.set(i, out);
    }
    dx.store(static_cast<T*>(p.dx) + row * p.columns, p.columns, thread, threads);
  }

  JAXATOR_DEVICE void store_partial(i64 group) const {
    if (p.partials == nullptr) return;
#pragma unroll
    for (int i = 0; i < Vectors; i++) {
      const int c = Piece::column(i, thread, threads);
      if (c >= p.columns) continue;
#pragma unroll
      for (int e = 0; e < kElements; e += 4)
        hopper::store(p.partials + group * p.columns + c + e,
                      pack<float>({dweight[i][e], dweight[i][e + 1], dweight[i][e + 2], dweight[i][e + 3]}));
    }
  }
};

/// While one row is reduced, the next is on its way.
template <class T, int Vectors> JAXATOR_DEVICE void backward_in_registers(const RmsNormBackward& p) {
  Backward<T, Vectors> backward{p};
  const i64 group = i64{block_x()} * threads_y() + thread_y(), groups = i64{blocks_x()} * threads_y();
  typename Backward<T, Vectors>::Piece s, dy, next_s, next_dy;
  if (group < p.rows) backward.load(group, s, dy);
  u32 turn = 0;
#pragma unroll 1
  for (i64 row = group; row < p.rows; row += groups) {
    if (row + groups < p.rows) backward.load(row + groups, next_s, next_dy);
    backward.row(row, s, dy, turn++);
    s = next_s, dy = next_dy;
  }
  backward.store_partial(group);
}

/// Any length and alignment. A thread has the same columns in every row, so its partial sums need no other thread.
template <class T> JAXATOR_DEVICE void backward_by_elements(const RmsNormBackward& p) {
  const int thread = static_cast<int>(thread_x()), threads = static_cast<int>(threads_x());
  const i64 group = i64{block_x()} * threads_y() + thread_y(), groups = i64{blocks_x()} * threads_y();
  float* partial = p.partials + group * p.columns;
  if (p.partials != nullptr)
    for (int c = thread; c < p.columns; c += threads) partial[c] = 0;
  const float inverse = 1.0f / static_cast<float>(p.columns);
  u32 turn = 0;
#pragma unroll 1
  for (i64 row = group; row < p.rows; row += groups) {
    const i64 start = row * p.columns;
    const T *s = static_cast<const T*>(p.sum) + start, *dy = static_cast<const T*>(p.dy) + start;
    float sums[2] = {0, 0};
    for (int c = thread; c < p.columns; c += threads) {
      const float v = to_float(s[c]), g = to_float(dy[c]) * (p.weight != nullptr ? p.weight[c] : 1.0f);
      sums[0] += v * v, sums[1] += g * v;
    }
    block_sum(sums, shared_base(), static_cast<u32>(threads) / 32, turn++);
    const float r = rsqrt_approx(sums[0] * inverse + p.epsilon), pull = r * r * r * sums[1] * inverse;
    for (int c = thread; c < p.columns; c += threads) {
      const float v = to_float(s[c]), d = to_float(dy[c]);
      float out = r * d * (p.weight != nullptr ? p.weight[c] : 1.0f) - v * pull;
      if (p.dsum != nullptr) out += to_float(static_cast<const T*>(p.dsum)[start + c]);
      static_cast<T*>(p.dx)[start + c] = from_float<T>(out);
      if (p.partials != nullptr) partial[c] += d * v * r;
    }
  }
}

}  // namespace

// 512 threads have 128 registers each: enough for the next row and the sums.
#define JAXATOR_ENTRIES(suffix, T)                                                                             \
  JAXATOR_KERNEL(512, 1) rms_norm_backward2_##suffix(const JAXATOR_GRID_CONSTANT RmsNormBackward p) {          \
    backward_in_registers<T, 2>(p);                                                                            \
  }                                                                                                            \
  JAXATOR_KERNEL(1024, 1) rms_norm_backward_elements_##suffix(const JAXATOR_GRID_CONSTANT RmsNormBackward p) { \
    backward_by_elements<T>(p);                                                                                \
  }
JAXATOR_ENTRIES(f32, float)
JAXATOR_ENTRIES(bf16, Bf16)
JAXATOR_ENTRIES(f16, F16)

JAXATOR_KERNEL(1024, 1) rms_norm_sum_partials(const float* partials, float* sums, int count, int columns) {
  sum_partials(partials, sums, count, columns);
}

}  // namespace jaxator::hopper
