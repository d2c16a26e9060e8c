/// @file
/// RMS normalisation on Hopper, backward. With r = 1 / sqrt(mean(s^2) + epsilon) and g = dy * weight:
///   dx = r g - s r^3 mean(g s) (+ dsum)      dweight = sum over rows of dy s r
/// Blocks take rows in turns and keep their sums for dweight in registers until the end.
#include "src/ops/rms_norm/hopper.h"
#include "src/tile/hopper/math.h"
#include "src/tile/hopper/row_stream.h"

namespace jaxator::hopper {
namespace {

constexpr u32 kSumBytes = kBlockSumBytes<2>;

/// The row in `Vectors` vectors a thread: columns <= threads * Vectors * elements of a vector; addresses of rows multiples of 16.
template <class T, int Vectors> struct Backward {
  static constexpr int kElements = kVectorElements<T>;

  const RmsNormBackward& p;
  const u32 thread = thread_x(), threads = threads_x();
  const RowParameter<T, Vectors, Vectors == 1> weights;
  float dweight[Vectors][kElements] = {};

  JAXATOR_DEVICE explicit Backward(const RmsNormBackward& p) : p(p), weights(p.weight, p.columns, 1.0f) {}

  JAXATOR_DEVICE int column(int i) const { return RowPiece<T, Vectors>::column(i, thread, threads); }

  JAXATOR_DEVICE void row(const RowStream<T>& rows, u32 turn) {
    float sums[2] = {0, 0};  // of s^2 and of g s
#pragma unroll
    for (int i = 0; i < Vectors; i++) {
      const int c = column(i);
      if (c >= p.columns) continue;
      float s[kElements], dy[kElements];
      unpack<T>(rows.load(0, c), s), unpack<T>(rows.load(1, c), dy);
#pragma unroll
      for (int e = 0; e < kElements; e += 4) {
        float weight[4];
        weights.four(i, c, e, weight);
#pragma unroll
        for (int j = 0; j < 4; j++) {
          sums[0] += s[e + j] * s[e + j];
          sums[1] += dy[e + j] * weight[j] * s[e + j];
        }
      }
    }
    block_sum(sums, shared_base(), threads / 32, turn);
    rows.refill();
    const float r = rsqrt_approx(sums[0] * p.inverse_columns + p.epsilon), pull = r * r * r * sums[1] * p.inverse_columns;
#pragma unroll
    for (int i = 0; i < Vectors; i++) {
      const int c = column(i);
      if (c >= p.columns) continue;
      float s[kElements], dy[kElements], dx[kElements] = {};
      unpack<T>(rows.load(0, c), s), unpack<T>(rows.load(1, c), dy);
      if (p.dsum != nullptr) unpack<T>(rows.load(2, c), dx);
#pragma unroll
      for (int e = 0; e < kElements; e += 4) {
        float weight[4];
        weights.four(i, c, e, weight);
#pragma unroll
        for (int j = 0; j < 4; j++) {
          const float scaled = dy[e + j] * r;
          dweight[i][e + j] += scaled * s[e + j];
          dx[e + j] += scaled * weight[j] - s[e + j] * pull;
        }
      }
      store_streamed(static_cast<T*>(p.dx) + rows.row() * p.columns + c, pack<T>(dx));
    }
  }
};

template <class T, int Vectors> JAXATOR_DEVICE void backward_in_registers(const RmsNormBackward& p) {
  const u32 shared = shared_base() + kSumBytes;
  RowStream<T> rows(shared, p.sum, p.dy, p.dsum, p.rows, p.columns, p.stages);
  Backward<T, Vectors> backward(p);
#pragma unroll 1
  for (u32 turn = 0; rows.has_row(); rows.next()) {
    rows.wait();
    backward.row(rows, turn++);
  }
  if (p.partials != nullptr) store_partials<T>(backward.dweight, p.partials, p.columns, shared);
}

/// Any length and alignment. A thread has the same columns in every row, so its partial sums need no other thread.
template <class T> JAXATOR_DEVICE void backward_by_elements(const RmsNormBackward& p) {
  const int thread = static_cast<int>(thread_x()), threads = static_cast<int>(threads_x());
  const i64 group = i64{block_x()} * threads_y() + thread_y(), groups = i64{blocks_x()} * threads_y();
  float* partial = p.partials + group * p.columns;
  if (p.partials != nullptr)
    for (int c = thread; c < p.columns; c += threads) partial[c] = 0;
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
    const float r = rsqrt_approx(sums[0] * p.inverse_columns + p.epsilon), pull = r * r * r * sums[1] * p.inverse_columns;
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

#define JAXATOR_ENTRIES(suffix, T)                                                                             \
  JAXATOR_KERNEL(1024, 1) rms_norm_backward1_##suffix(const JAXATOR_GRID_CONSTANT RmsNormBackward p) {         \
    backward_in_registers<T, 1>(p);                                                                            \
  }                                                                                                            \
  JAXATOR_KERNEL(512, 1) rms_norm_backward4_##suffix(const JAXATOR_GRID_CONSTANT RmsNormBackward p) {          \
    backward_in_registers<T, 4>(p);                                                                            \
  }                                                                                                            \
  JAXATOR_KERNEL(1024, 1) rms_norm_backward_elements_##suffix(const JAXATOR_GRID_CONSTANT RmsNormBackward p) { \
    backward_by_elements<T>(p);                                                                                \
  }
JAXATOR_ENTRIES(f32, float)
JAXATOR_ENTRIES(bf16, Bf16)
JAXATOR_ENTRIES(f16, F16)

JAXATOR_KERNEL(1024, 1) rms_norm_sum_partials(const float* partials, float* first, float* second, int count, int columns) {
  sum_partials(partials, first, second, count, columns);
}

}  // namespace jaxator::hopper
