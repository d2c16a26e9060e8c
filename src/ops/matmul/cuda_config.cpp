#include "src/ops/matmul/cuda_config.h"

#include <algorithm>

#include "src/ops/matmul/hopper.h"
#include "src/ops/matmul/problem.h"

namespace jaxator {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Estimated cycles of a config, as if at 1.75 GHz. The constants were measured on an H200.
double cost(const MatmulDesc& desc, const MatmulCudaConfig& c) {
  const int64_t steps = ceil_div(matmul_k_steps(desc) * desc.sum, c.slices());
  const int64_t clusters = matmul_cluster_rows(desc, c) * matmul_tile_columns(desc, c) * desc.batch * c.parts;
  const double waves = double(ceil_div(clusters, clusters_at_once(c.cluster())));
  const double active = double(std::min<int64_t>(clusters * c.cluster(), 132));

  // The matrix unit takes 16 elements of k for 128 x 16 results a cycle. Narrow tiles read more shared memory for a product: its
  // 128 bytes a cycle are what limits a warpgroup with 64 columns or less. 64x64, with 10 KB a step, was measured at 640 cycles.
  const double area = double(c.rows) * c.columns;
  const double products = area / 32 * (c.rows == 64 ? (c.columns == 64 ? 5.0 : 1.5) : c.columns == 128 ? 1.1 : 1.0);
  // Loads: 5000 bytes a cycle from the second-level cache, at most 64 for one multiprocessor; rows past m are not read.
  const double loaded = (double(std::min<int64_t>(c.rows, desc.m)) + double(c.columns) / c.pair) * 128;
  const double step = std::max(products, loaded / std::min(64.0, 5000 / active));
  // Memory: each operand once, at 4.2 TB/s, of which one multiprocessor gets 38 GB/s at most (64 of them got 2.4 TB/s).
  const double bytes =
      double(size_of(desc.type)) * (double(matrices_a(desc)) * desc.m * desc.k + double(matrices_b(desc)) * desc.k * desc.n);
  // Filling the pipeline, the epilogue, a cluster's barriers; the exchange of sums in a cluster, or a second kernel and its
  // traffic.
  const double pair = c.cluster() > 1 ? 500 : 0, exchange = c.splits > 1 ? 1000 + area / 16 : 0;
  const double second = c.parts > 1 ? 5000 + double(clusters) * c.pair * area * 8 / 5000 : 0;
  return std::max(waves * double(steps) * step, bytes / std::min(2400.0, 22 * active)) +
         waves * (1000 + area / 32 + pair + exchange) + second;
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
    if (steps / c.slices() < hopper::kLeastSteps) return;
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
      for (c.parts = 1; c.parts <= 8; c.parts++)
        if (c.parts == 1 || tile[1] > 64) consider(c);
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
  if (c.parts == 1) return 0;
  return matmul_cluster_rows(desc, c) * c.pair * matmul_tile_columns(desc, c) * desc.batch * c.parts * c.rows * c.columns * 4;
}

}  // namespace jaxator
