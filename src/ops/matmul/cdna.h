/// @file
/// What host and device agree on for the CDNA kernels: parameters, and the shape of tiles.
#pragma once

#include "src/tile/cdna/global.h"

namespace jaxator::cdna {

/// The values of jaxator::Activation.
enum MatmulActivation : int { kNone = 0, kRelu = 1, kSilu = 2, kGelu = 3, kGeluTanh = 4 };

/// Blocks of the result go round robin over eight dies (XCD) with a second-level cache each. Chunks of neighbouring tiles go to
/// one of them; tiles are counted in windows of `window` rows, so that a chunk shares rows of a and columns of b. Whatever does
/// not fill a round of chunks stays as it is.
struct MatmulTile {
  unsigned row, column;
};
inline constexpr unsigned kDies = 8;
constexpr MatmulTile matmul_tile_of(unsigned block, unsigned rows, unsigned columns, unsigned chunk, unsigned window) {
  const unsigned round = kDies * chunk, in_rounds = rows * columns / round * round;
  if (block < in_rounds) {
    const unsigned die = block % kDies, turn = block / kDies;
    block = turn / chunk * round + die * chunk + turn % chunk;
  }
  const unsigned of_window = window * columns, which = block / of_window, first = which * window;
  const unsigned height = rows - first < window ? rows - first : window, inside = block - which * of_window;
  return {first + inside % height, inside / height};
}

/// Matrices of an operand. Bytes from one matrix of the batch, and from one term of the sum, to the next; 0 where shared.
struct MatmulOperand {
  const void JAXATOR_GLOBAL* data;
  long long batch_bytes, sum_bytes;
};

/// Factors of rows or columns of the result.
struct MatmulScales {
  const float JAXATOR_GLOBAL* data;  // null: none
  unsigned stride;                   // 1: one for each row (column); 0: one for all
  long long batch_bytes;
};

/// out[z] = activation(scales * sum over matrices of a b + bias[z]) + residual[z], a tile of 256 x 256 a block.
struct MatmulParams {
  MatmulOperand a, b;
  void JAXATOR_GLOBAL* out;
  void JAXATOR_GLOBAL* preactivation;      // null: not wanted; as the 16-bit operands' type
  const void JAXATOR_GLOBAL* residual;     // null: none; as the 16-bit operands' type
  const float JAXATOR_GLOBAL* bias;        // null: none
  MatmulScales row_scales, column_scales;  // of a, of b

  unsigned m, n, k;
  unsigned batch;
  unsigned terms;  // of the sum; 0 with k = 0
  unsigned tile_rows, tile_columns;
  unsigned parts;  // blocks of a tile, each with a part of the steps along k; 1: a block has all of them
  float JAXATOR_GLOBAL*
      partials;            // [part][tile of all matrices][256 * 256], if there are several parts: the kernel matmul_sum finishes
  unsigned chunk, window;  // of the order of blocks, see matmul_tile_of
  int bias_batched;        // 0 or 1
  int activation;
  int out_f32;
};

/// Strides in elements of an operand without any alignment; one of them is 1. Rows are m of a, n of b.
struct LooseStrides {
  long long row, k;
};

inline constexpr int kMatmulThreads = 512;  // eight waves, two on each SIMD, of 256 registers a thread
inline constexpr int kMatmulTile = 256;     // rows and columns of the result that a block has

/// Bytes of one row of an operand: 256 rows of it are then within 2 GiB, and so is a step of k where k is the slow direction.
inline constexpr long long kMatmulMostRowBytes = (1ll << 23) - 16;
/// Columns of the result: 128 rows of float32 are within 2 GiB.
inline constexpr long long kMatmulMostColumns = (1ll << 22) - 1;

}  // namespace jaxator::cdna
