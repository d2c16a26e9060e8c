/// @file
/// RMS normalisation on CDNA, backward. With r = 1 / sqrt(mean(s^2) + epsilon) and g = dy * weight:
///   dx = r g - s r^3 mean(g s) (+ dsum)      dweight = sum over rows of dy s r
/// Blocks take rows in turns and keep their sums for dweight in registers until the end.
#include "src/ops/rms_norm/cdna.h"
#include "src/tile/cdna/row.h"

namespace jaxator::cdna {
namespace {

/// What is read of a row; zeros past the last row and without dsum. Neither has a branch around its loads, which then read
/// nothing: after one the compiler would wait for the next row's loads before it starts on this row.
template <class T, int Vectors> struct Inputs {
  RowPiece<T, Vectors> sum, dy, dsum;

  JAXATOR_DEVICE void load(const RmsNormBackward& p, i64 row, u32 thread, u32 threads) {
    const i64 start = row * p.columns;
    const u32 columns = row < p.rows ? p.columns : 0;
    sum.load(row_of<T>(p.sum, start, columns), thread, threads);
    dy.load(row_of<T>(p.dy, start, columns), thread, threads);
    dsum.load(row_of<T>(p.dsum, start, p.dsum != nullptr ? columns : 0), thread, threads);
  }
};

/// The row in `Vectors` vectors a thread: columns <= threads * Vectors * elements of a vector; addresses of rows multiples of 16.
template <class T, int Vectors> struct Backward {
  using Piece = RowPiece<T, Vectors>;
  static constexpr int kElements = Piece::kElements;

  const RmsNormBackward& p;
  const u32 thread = thread_x(), threads = threads_x(), wave = uniform(thread / kWave), waves = threads / kWave;
  BlockSum<2> sum_over_block;
  float weight[Vectors][kElements], dweight[Vectors][kElements] = {};

  JAXATOR_DEVICE explicit Backward(const RmsNormBackward& p) : p(p) {
    load_parameter<T>(p.weight, p.columns, 1.0f, thread, threads, weight);
  }

  JAXATOR_DEVICE void row(const Inputs<T, Vectors>& in, i64 row) {
    float sums[2] = {0, 0};  // of s^2 and of g s
#pragma unroll
    for (int i = 0; i < Vectors; i++) {
      float s[kElements], dy[kElements];
      in.sum.values(i, s), in.dy.values(i, dy);
#pragma unroll
      for (int e = 0; e < kElements; e++) {
        sums[0] += s[e] * s[e];
        sums[1] += dy[e] * weight[i][e] * s[e];
      }
    }
    sum_over_block(sums, wave, waves);
    const float r = reciprocal_sqrt(sums[0] * p.inverse_columns + p.epsilon), pull = r * r * r * sums[1] * p.inverse_columns;
    const Span out = row_of<T>(p.dx, row * p.columns, p.columns);
#pragma unroll
    for (int i = 0; i < Vectors; i++) {
      float s[kElements], dy[kElements], dx[kElements];
      in.sum.values(i, s), in.dy.values(i, dy), in.dsum.values(i, dx);
#pragma unroll
      for (int e = 0; e < kElements; e++) {
        const float scaled = dy[e] * r;
        dweight[i][e] += scaled * s[e];
        dx[e] += scaled * weight[i][e] - s[e] * pull;
      }
      out.store_streamed(Piece::column(i, thread, threads) * sizeof(T), pack<T>(dx));
    }
  }
};

/// Two rows in turns: the loads of one are under way while the other is worked on.
template <class T, int Vectors> JAXATOR_DEVICE void backward_in_registers(const RmsNormBackward& p) {
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
  if (p.partials != nullptr) store_partials<T>(p.partials, p.columns, backward.dweight);
}

/// Any length and alignment. A thread has the same columns in every row, so its partial sums need no other thread.
template <class T> JAXATOR_DEVICE void backward_by_elements(const RmsNormBackward& p) {
  const u32 thread = thread_x(), threads = threads_x();
  const i64 group = i64{block_x()} * threads_y() + uniform(thread_y());
  float JAXATOR_GLOBAL* partial = p.partials + group * p.columns;
  if (p.partials != nullptr)
    for (u32 c = thread; c < p.columns; c += threads) partial[c] = 0;
  BlockSum<2> sum_over_block;
#pragma unroll 1
  for (i64 row = group; row < p.rows; row += p.groups) {
    const i64 start = row * p.columns;
    const T JAXATOR_GLOBAL* s = static_cast<const T JAXATOR_GLOBAL*>(p.sum) + start;
    const T JAXATOR_GLOBAL* dy = static_cast<const T JAXATOR_GLOBAL*>(p.dy) + start;
    float sums[2] = {0, 0};
    for (u32 c = thread; c < p.columns; c += threads) {
      const float v = to_float(T(s[c])), g = to_float(T(dy[c])) * (p.weight != nullptr ? p.weight[c] : 1.0f);
      sums[0] += v * v, sums[1] += g * v;
    }
    sum_over_block(sums, uniform(thread / kWave), threads / kWave);
    const float r = reciprocal_sqrt(sums[0] * p.inverse_columns + p.epsilon), pull = r * r * r * sums[1] * p.inverse_columns;
    for (u32 c = thread; c < p.columns; c += threads) {
      const float v = to_float(T(s[c])), d = to_float(T(dy[c]));
      float out = r * d * (p.weight != nullptr ? p.weight[c] : 1.0f) - v * pull;
      if (p.dsum != nullptr) out += to_float(T((static_cast<const T JAXATOR_GLOBAL*>(p.dsum) + start)[c]));
      (static_cast<T JAXATOR_GLOBAL*>(p.dx) + start)[c] = from_float<T>(out);
      if (p.partials != nullptr) partial[c] += d * v * r;
    }
  }
}

}  // namespace

#define JAXATOR_ENTRIES(suffix, T)                                                                        \
  JAXATOR_KERNEL(1024) rms_norm_backward1_##suffix(RmsNormBackward p) { backward_in_registers<T, 1>(p); } \
  JAXATOR_KERNEL(512) rms_norm_backward4_##suffix(RmsNormBackward p) { backward_in_registers<T, 4>(p); }  \
  JAXATOR_KERNEL(1024) rms_norm_backward_elements_##suffix(RmsNormBackward p) { backward_by_elements<T>(p); }
JAXATOR_ENTRIES(f32, float)
JAXATOR_ENTRIES(bf16, Bf16)
JAXATOR_ENTRIES(f16, F16)

JAXATOR_KERNEL(1024)
rms_norm_sum_partials(const float JAXATOR_GLOBAL* partials, float JAXATOR_GLOBAL* sums, u32 count, u32 columns) {
  sum_partials(partials, sums, count, columns);
}

}  // namespace jaxator::cdna
