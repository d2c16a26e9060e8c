/// @file
/// What host and device agree on for the Hopper kernels: parameters, and the shape of tiles and shared memory.
#pragma once

namespace jaxator::hopper {

/// The values of jaxator::Activation.
enum MatmulActivation : int { kNone = 0, kRelu = 1, kSilu = 2, kGelu = 3, kGeluTanh = 4 };

/// out[z] = activation(sum over matrices of a b + bias[z]) + residual[z], tile by tile.
struct MatmulParams {
  void* out;
  void* preactivation;   // null: not wanted; as the operands' type
  const float* bias;     // null: none
  const void* residual;  // null: none; as the operands' type

  int m, n;
  int k_steps;  // steps of 128 bytes along k in one matrix, the last of them perhaps without elements
  int steps;    // k_steps times the matrices that are summed
  int cluster_rows, tile_columns, batch;
  int band;  // cluster rows that are walked before the next column of tiles

  // Blocks of a cluster: `pair` neighbours along m share a tile of b, `splits` share the steps.
  int pair, splits;
  // Clusters' tiles before `whole` are computed by one cluster each. The steps of the others, one tile behind the other, are cut
  // into `streams` even ranges, one for each of so many clusters (0: there are no others). The cluster that has a tile's last
  // steps adds what the others left in `partials`.
  int whole, streams;
  int stream_steps, stream_extra;  // steps of a range; the first `stream_extra` ranges have one more
  int* ready;                      // [range][block of the pair][warpgroup]: 1 when the sums are there; zeros before the launch
  float* partials;                 // [range][block of the pair][eight columns of a warpgroup][thread of both][4]

  int stage_bytes;  // that are loaded: less than a stage has where m is smaller than a tile

  int activation;
  // Matrices of an operand from one matrix of the batch, and from one term of the sum, to the next; 0 where shared.
  int a_batch, a_sum, b_batch, b_sum;
  int bias_batched;  // 0 or 1
  int out_f32;
  int aligned_rows;  // of out, preactivation and residual are multiples of 16 bytes
  int store_maps;    // and stores go through the copy engine
};

/// An operand without any alignment, as [matrices, rows, k]: strides in elements, of which one of row and k is 1. Rows are those
/// of wgmma: m for a, n for b.
struct LooseOperand {
  const void* data;
  long long row, k, matrix;
};
struct LooseOperands {
  LooseOperand a, b;
  int k;
};

inline constexpr int kLeastSteps = 4;  // of one block for a tile: the first ones are written out in the kernel
inline constexpr int kLeastStreamSteps = 3 * kLeastSteps;  // of a range, whose ends may move by less than kLeastSteps
inline constexpr int kMatmulThreads = 384;                 // a warpgroup that loads and two that multiply
inline constexpr int kMatmulGroups = 2;                    // these
inline constexpr int kStageRowBytes = 128;                 // of k in a stage
inline constexpr int kBoxBytes = 8192;                     // 64 rows of an operand, or a piece of the result
inline constexpr int kStagingBoxes = 4;                    // two for each warpgroup that multiplies
inline constexpr int kBarrierBytes = 256;
inline constexpr int kSharedBytes = 232448;

constexpr int matmul_stage_bytes(int rows, int columns) { return (rows + columns) * kStageRowBytes; }
constexpr int matmul_stages(int rows, int columns) {
  const int fit = (kSharedBytes - kStagingBoxes * kBoxBytes - kBarrierBytes) / matmul_stage_bytes(rows, columns);
  return fit < 8 ? fit : 8;
}
constexpr int matmul_shared_bytes(int rows, int columns) {
  return matmul_stages(rows, columns) * matmul_stage_bytes(rows, columns) + kStagingBoxes * kBoxBytes + kBarrierBytes;
}

static_assert(matmul_stages(128, 256) == 4 && matmul_stages(128, 128) == 6 && matmul_stages(64, 128) == 8);

}  // namespace jaxator::hopper
