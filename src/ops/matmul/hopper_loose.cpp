/// @file
/// Products of operands without any alignment, for which the copy engine cannot be used: a warpgroup loads element by element and
/// brings every layout into the one with k contiguous. Right for every shape and layout, and slow.
#include "src/ops/matmul/hopper_run.h"

namespace jaxator::hopper {
namespace {

/// Rows of k of one operand's tile into shared memory, 16 bytes at a time.
template <class S> struct LooseLoader {
  static constexpr u32 kArrivals = kGroupThreads;
  using M = typename Stored<typename S::T>::type;
  static constexpr int kItems = kVectorElements<M>, kChunks = static_cast<int>(kSwizzleBytes) / 16;

  const MatmulParams& p;
  const LooseOperands& in;
  u32 shared, thread;

  JAXATOR_DEVICE void load(const ClusterPlace&, const TilePlace& tile, RingPosition<S::kStages>& ring) const {
    int matrix = 0, k = 0;
#pragma unroll 1
    for (int step = 0; step < p.steps; step++) {
      const u32 to = shared + ring.stage * S::kStageBytes;
      barrier_wait(shared + S::kEmpty + 8 * ring.stage, ring.parity ^ 1);
      fill(in.a, to, S::kRows, tile.row, p.m, tile.batch * p.a_batch + matrix * p.a_sum, k * S::A::kDepth);
      fill(in.b, to + S::kBytesA, S::kColumns, tile.column, p.n, tile.batch * p.b_batch + matrix * p.b_sum, k * S::A::kDepth);
      fence_shared_for_async();
      barrier_arrive(shared + S::kFull + 8 * ring.stage);
      ring.advance();
      if (++k == p.k_steps) k = 0, matrix++;
    }
  }

 private:
  JAXATOR_DEVICE void fill(const LooseOperand& operand, u32 to, int rows, int first, int limit, int matrix, int k) const {
    const M* base = static_cast<const M*>(operand.data) + matrix * operand.matrix;
    // Neighbouring lanes read neighbouring elements.
    const bool k_contiguous = operand.k == 1;
    for (int i = static_cast<int>(thread); i < rows * kChunks; i += kGroupThreads) {
      const int row = k_contiguous ? i / kChunks : i % rows, chunk = k_contiguous ? i % kChunks : i / rows;
      M items[kItems];
#pragma unroll
      for (int e = 0; e < kItems; e++) {
        const int at = k + chunk * kItems + e;
        items[e] = {};
        if (first + row < limit && at < in.k) items[e] = base[(first + row) * operand.row + at * operand.k];
      }
      Vector v;
#pragma unroll
      for (int w = 0; w < 4; w++) {
        if constexpr (sizeof(M) == 4)
          v.word[w] = bits_as<u32>(items[w]);
        else
          v.word[w] = items[2 * w].bits | static_cast<u32>(items[2 * w + 1].bits) << 16;
      }
      store_shared(Staging::address(to, static_cast<u32>(row), static_cast<u32>(chunk)), v);
    }
  }
};

template <class T> JAXATOR_DEVICE void run_loose(const MatmulParams& p, const LooseOperands& in) {
  using S = Shape<T, Major::k, Major::k, 128, 128>;
  const TensorMap& none = *reinterpret_cast<const TensorMap*>(&p);  // p.store_maps is 0
  run<S>(p, {none, none}, LooseLoader<S>{p, in, shared_base(), thread_x()});
}

}  // namespace

#define JAXATOR_MATMUL_LOOSE(name, T)                                                                                     \
  JAXATOR_KERNEL(384, 1) name(const JAXATOR_GRID_CONSTANT MatmulParams p, const JAXATOR_GRID_CONSTANT LooseOperands in) { \
    run_loose<T>(p, in);                                                                                                  \
  }
JAXATOR_MATMUL_LOOSE(matmul_loose_tf32, Tf32)
JAXATOR_MATMUL_LOOSE(matmul_loose_bf16, Bf16)
JAXATOR_MATMUL_LOOSE(matmul_loose_f16, F16)

}  // namespace jaxator::hopper
