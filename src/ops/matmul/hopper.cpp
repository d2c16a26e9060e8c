/// @file
/// Products on Hopper, one image for each element type and layout of the operands (JAXATOR_T, JAXATOR_A, JAXATOR_B): persistent
/// blocks of one warpgroup that loads and two that multiply, clusters that share tiles or split k.
#include "src/ops/matmul/hopper_run.h"

namespace jaxator::hopper {
namespace {

/// The boxes of `rows` rows of one operand from step k of matrix `batch` on: one box where k is contiguous, else one for each 64
/// rows.
template <class Operand, class Load> JAXATOR_DEVICE void for_boxes(u32 to, int rows, int row, int k, Load&& load) {
  if constexpr (!Operand::kTransposed) {
    load(to, k, row);
  } else {
    for (int r = 0; r < rows; r += 64, to += kBlockBytes) load(to, row + r, k);
  }
}

/// One thread that tells the copy engine what to load.
template <class S> struct MapLoader {
  static constexpr u32 kArrivals = 1;
  const MatmulParams& p;
  const TensorMap &a, &b;
  u32 shared;

  JAXATOR_DEVICE void load(const ClusterPlace& place, const TilePlace& tile, RingPosition<S::kStages>& ring) const {
    // Each block of a pair loads its half of b's tile into both.
    const int share = S::kColumns / p.pair, part = static_cast<int>(place.neighbour) * share;
    const u16 pair_mask = static_cast<u16>(((1u << p.pair) - 1) << (place.split * static_cast<u32>(p.pair)));
    int matrix = tile.first / p.k_steps, k = tile.first - matrix * p.k_steps;
#pragma unroll 1
    for (int step = 0; step < tile.steps; step++) {
      const u32 barrier = shared + S::kFull + 8 * ring.stage, to = shared + ring.stage * S::kStageBytes;
      barrier_wait(shared + S::kEmpty + 8 * ring.stage, ring.parity ^ 1);
      barrier_expect(barrier, static_cast<u32>(p.stage_bytes));
      const int at = k * S::A::kDepth;
      const int matrix_a = tile.batch * p.a_batch + matrix * p.a_sum, matrix_b = tile.batch * p.b_batch + matrix * p.b_sum;
      for_boxes<typename S::A>(to, S::kRows, tile.row, at,
                               [&](u32 box, int x, int y) { tma_load(box, a, barrier, x, y, matrix_a); });
      for_boxes<typename S::B>(to + S::kBytesA + static_cast<u32>(part) * kSwizzleBytes, share, tile.column + part, at,
                               [&](u32 box, int x, int y) {
                                 if (p.pair == 1)
                                   tma_load(box, b, barrier, x, y, matrix_b);
                                 else
                                   tma_load_multicast(box, b, barrier, x, y, matrix_b, pair_mask);
                               });
      ring.advance();
      if (++k == p.k_steps) k = 0, matrix++;
    }
  }
};

}  // namespace

#define JAXATOR_MATMUL(name, rows, columns)                                                            \
  JAXATOR_KERNEL(384, 1)                                                                               \
  name(const JAXATOR_GRID_CONSTANT TensorMap a, const JAXATOR_GRID_CONSTANT TensorMap b,               \
       const JAXATOR_GRID_CONSTANT TensorMap out, const JAXATOR_GRID_CONSTANT TensorMap preactivation, \
       const JAXATOR_GRID_CONSTANT MatmulParams p) {                                                   \
    using S = Shape<JAXATOR_T, Major::JAXATOR_A, Major::JAXATOR_B, rows, columns>;                     \
    if (thread_x() == 0) tma_prefetch(a), tma_prefetch(b), tma_prefetch(out);                          \
    run<S>(p, {out, preactivation}, MapLoader<S>{p, a, b, shared_base()});                             \
  }
JAXATOR_MATMUL(matmul_128x256, 128, 256)
JAXATOR_MATMUL(matmul_128x128, 128, 128)
JAXATOR_MATMUL(matmul_64x128, 64, 128)
JAXATOR_MATMUL(matmul_64x64, 64, 64)

}  // namespace jaxator::hopper
