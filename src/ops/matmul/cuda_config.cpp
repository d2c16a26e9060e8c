#include "src/ops/matmul/cuda_config.h"

#include <algorithm>
#include <numeric>

#include "src/ops/matmul/problem.h"

namespace jaxator {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Cycles of one step of a tile, by the matrix unit: it takes 16 elements of k for 128 x 16 results a cycle. Narrow tiles read
/// more shared memory for a product, of which 128 bytes a cycle are the limit. Factors as measured, with the waits between steps.
double step_cycles(const MatmulCudaConfig& c) {
  const double measured = c.rows == 64 ? (c.columns == 64 ? 3.5 : 2.2) : c.columns == 128 ? 1.21 : 1.19;
  // A block that shares b's tile reads less: a hundredth in the end, as that is power for the matrix unit.
  return c.rows * c.columns / 32 * measured * (c.pair == 1 ? 1.01 : 1.0);
}

/// Estimated cycles of a config, as if at 1.75 GHz, of the whole launch. The constants were fitted to 33 times on an H200, for m
/// from 16 to 512: 4 % on average, and the fastest config was found for 12 of 13 shapes.
double cost(const MatmulDesc& desc, const MatmulCudaConfig& c) {
  const double steps = double(ceil_div(matmul_k_steps(desc) * desc.sum, c.splits));
  const int64_t tiles = matmul_cluster_tiles(desc, c), whole = matmul_whole_tiles(desc, c), rest = tiles - whole;
  const double turns = double(ceil_div(whole, clusters_at_once(c.cluster()))), shared = c.streams ? double(rest) / c.streams : 0;
  const double active = double(std::min<int64_t>(tiles * c.cluster(), 132)), area = double(c.rows) * c.columns;
  // Loads: 6300 bytes a cycle from the second-level cache, at most 64 for one multiprocessor; rows past m are not read.
  const double loaded = (double(std::min<int64_t>(c.rows, desc.m)) + double(c.columns) / c.pair) * 128;
  const double step = std::max(step_cycles(c), loaded / std::min(64.0, 6300 / active));
  // Memory: each operand once, at 4.2 TB/s, of which one multiprocessor gets 30 bytes a cycle at most.
  const double bytes =
      double(size_of(desc.type)) * (double(matrices_a(desc)) * desc.m * desc.k + double(matrices_b(desc)) * desc.k * desc.n);
  // Starting; filling the pipeline and the epilogue; a cluster's start, and the exchange of sums in it.
  const double start = 7500 + (c.pair > 1 ? 2500 : 0), turn = 1000 + area / 32 + (c.splits > 1 ? 5000 + area / 16 : 0);
  // Zeroing flags; sums of the ranges that end inside of a tile, written and read at 2.5 TB/s.
  const double left = double(c.streams - std::gcd(int64_t{c.streams}, rest)) * c.pair * area * 4;
  const double ranges = c.streams ? 4000 + turn + 2 * left / 1430 : 0;
  return std::max((turns + shared) * steps * step, bytes / std::min(2400.0, 30 * active)) + start + turns * turn + ranges;
}

}  // namespace

std::string matmul_cuda_loose_reason(const MatmulDesc& desc) {
  const auto misaligned = [&](const char* name, int64_t row) {
    const int64_t bytes = row * size_of(desc.type);
    return bytes % 16 == 0 ? std::string()
                           : std::string(name) + "'s rows have " + std::to_string(bytes) + " bytes: no multiple of 16";
  };
  if (desc.k == 0) return "k is 0";
  if (desc.type == DType::f32 && (desc.transpose_a || !desc.transpose_b))
    return "float32 needs k contiguous in both operands: a not transposed, b transposed";
  if (std::string reason = misaligned("a", desc.transpose_a ? desc.m : desc.k); !reason.empty()) return reason;
  return misaligned("b", desc.transpose_b ? desc.k : desc.n);
}

int64_t matmul_k_steps(const MatmulDesc& desc) {
  return std::max(ceil_div(desc.k, hopper::kStageRowBytes / size_of(desc.type)),
                  ceil_div(hopper::kLeastSteps, std::max<int64_t>(desc.sum, 1)));
}
int64_t matmul_cluster_rows(const MatmulDesc& desc, const MatmulCudaConfig& config) {
  return ceil_div(desc.m, int64_t{config.rows} * config.pair);
}
int64_t matmul_tile_columns(const MatmulDesc& desc, const MatmulCudaConfig& config) { return ceil_div(desc.n, config.columns); }
int64_t matmul_cluster_tiles(const MatmulDesc& desc, const MatmulCudaConfig& config) {
  return matmul_cluster_rows(desc, config) * matmul_tile_columns(desc, config) * desc.batch;
}
int64_t matmul_whole_tiles(const MatmulDesc& desc, const MatmulCudaConfig& config) {
  const int64_t tiles = matmul_cluster_tiles(desc, config);
  return config.streams ? tiles - tiles % clusters_at_once(config.cluster()) : tiles;
}

MatmulCudaConfig pick_cuda_config(const MatmulDesc& desc) {
  MatmulCudaConfig best;
  if (!matmul_cuda_loose_reason(desc).empty()) {
    best.loose = true, best.columns = 128;
    return best;
  }
  // All configs that exist, ranked by the estimate; the first of equals.
  const int64_t steps = matmul_k_steps(desc) * desc.sum;
  double least = 0;
  const auto consider = [&](const MatmulCudaConfig& c) {
    if (steps / c.splits < hopper::kLeastSteps) return;
    const double estimate = cost(desc, c);
    if (least == 0 || estimate < least) least = estimate, best = c;
  };
  constexpr int kTiles[][2] = {{128, 256}, {128, 128}, {64, 128}, {64, 64}};
  for (const auto& tile : kTiles) {
    const MatmulCudaConfig plain{.rows = tile[0], .columns = tile[1]};
    for (int pair : {2, 1}) {
      // Half of b's tile is a box of 64 columns at least.
      if (pair == 2 && (desc.m <= plain.rows || plain.columns < 128)) continue;
      MatmulCudaConfig c = plain;
      c.pair = pair;
      consider(c);
      // Sharing the last turn costs about 20 us, so it pays for long products. The fewer ranges, the fewer sums to leave: few
      // tiles are cut in two or three.
      const int64_t at_once = clusters_at_once(pair), tiles = matmul_cluster_tiles(desc, c), rest = tiles % at_once;
      if (tiles < 4 * at_once) continue;
      for (int64_t streams : {at_once, 2 * rest, 3 * rest, 3 * rest / 2}) {
        if (streams < 2 || streams > at_once || rest * steps / streams < hopper::kLeastStreamSteps) continue;
        c.streams = int(streams);
        consider(c);
      }
    }
    MatmulCudaConfig split = plain;
    split.splits = 2;
    consider(split);
  }
  return best;
}

int64_t matmul_cuda_scratch_bytes(const MatmulDesc& asked) {
  const MatmulDesc desc = simplified(asked);
  if (desc.m == 0 || desc.n == 0 || desc.batch == 0) return 0;
  const MatmulCudaConfig c = pick_cuda_config(desc);
  return c.streams ? matmul_flag_bytes(c) + int64_t{c.streams} * c.pair * c.rows * c.columns * 4 : 0;
}

}  // namespace jaxator
