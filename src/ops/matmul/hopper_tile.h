/// @file
/// Which tile a block computes, where it lies in shared memory, and the product itself.
///
/// A block has three warpgroups: one loads stages of 128 bytes of k into a ring, two multiply. With 128 rows each of these has
/// 64 of them and all columns; with 64 rows, half of the columns.
#pragma once

#include "src/ops/matmul/hopper.h"
#include "src/tile/hopper/barrier.h"
#include "src/tile/hopper/operand.h"

namespace jaxator::hopper {

inline constexpr u32 kGroups = 2;  // warpgroups that multiply
inline constexpr int kGroupThreads = 128;
inline constexpr u32 kFirstGroupBarrier = 1;           // named barriers: one for each of these warpgroups,
inline constexpr u32 kAllGroupsBarrier = 1 + kGroups;  // and one for all of them

/// A kernel: element type, layouts and tile. Everything here is known when it is compiled.
template <class T_, Major major_a, Major major_b, int rows, int columns> struct Shape {
  using T = T_;
  using A = Operand<T, major_a>;
  using B = Operand<T, major_b>;
  static constexpr int kRows = rows, kColumns = columns;
  static constexpr int kGroupColumns = rows == 128 ? columns : columns / 2;
  static constexpr int kRegisters = kGroupColumns / 2;
  static constexpr int kStages = matmul_stages(rows, columns);
  static constexpr u32 kBytesA = rows * kSwizzleBytes, kBytesB = columns * kSwizzleBytes;
  static constexpr u32 kStageBytes = kBytesA + kBytesB;
  static_assert(rows == 64 || rows == 128);
  static constexpr bool kMayDefer = kRegisters >= 64 && !kIsTf32<T>;  // smaller tiles are one for each block
  // The launch bounds give 168 to each of three warpgroups.
  static constexpr int kProducerRegisters = 40, kConsumerRegisters = 232;

  // Shared memory: stages, staging of results, barriers.
  static constexpr u32 kStaging = kStages * kStageBytes;
  static constexpr u32 kFull = kStaging + kStagingBoxes * kBoxBytes;
  static constexpr u32 kEmpty = kFull + kStages * 8;
  static_assert(kEmpty + kStages * 8 <= static_cast<u32>(matmul_shared_bytes(rows, columns)));
};

/// First row and column, the matrix, which part of the steps, and the number of the block's tile among all.
struct TilePlace {
  int row, column, batch, part;
  u32 unit;
};

/// This block's place in its cluster.
struct ClusterPlace {
  u32 neighbour, split;
  JAXATOR_DEVICE explicit ClusterPlace(const MatmulParams& p) {
    const u32 rank = rank_in_cluster(), pair = static_cast<u32>(p.pair);
    split = rank / pair, neighbour = rank - split * pair;
  }
};

/// Steps of one slice: [first, end). Slices are the splits of a cluster, or the parts.
struct StepRange {
  int first, end;
  JAXATOR_DEVICE StepRange(const MatmulParams& p, const ClusterPlace& place, const TilePlace& tile) {
    const i64 slice = static_cast<i64>(place.split) + tile.part, slices = p.splits * p.parts;
    first = static_cast<int>(p.steps * slice / slices), end = static_cast<int>(p.steps * (slice + 1) / slices);
  }
};

/// Place of the tile that the cluster `index` has, for its block `neighbour`. Tiles are walked in bands of `band` cluster rows,
/// so that what the clusters of one moment read fits the second-level cache: at 4096^3, bands of 4, 8 and 16 gave 776, 785 and
/// 778 TF.
JAXATOR_DEVICE TilePlace place_of(const MatmulParams& p, u32 index, u32 neighbour, int tile_rows, int tile_columns) {
  const u32 rows = static_cast<u32>(p.cluster_rows), band = static_cast<u32>(p.band),
            in_matrix = rows * static_cast<u32>(p.tile_columns);
  u32 matrix = 0, part = 0;
  if (index >= in_matrix) {
    matrix = index / in_matrix, index -= matrix * in_matrix;
    part = matrix / static_cast<u32>(p.batch), matrix -= part * static_cast<u32>(p.batch);
  }
  const u32 band_tiles = band * static_cast<u32>(p.tile_columns), base = index / band_tiles * band, in_band = index % band_tiles;
  const u32 height = rows - base < band ? rows - base : band, column = in_band / height, row = base + in_band - column * height;
  return {static_cast<int>(row * static_cast<u32>(p.pair) + neighbour) * tile_rows, static_cast<int>(column) * tile_columns,
          static_cast<int>(matrix), static_cast<int>(part), 0};
}

/// Tiles of all parts, in clusters.
JAXATOR_DEVICE u32 cluster_tiles(const MatmulParams& p) {
  return static_cast<u32>(p.cluster_rows) * static_cast<u32>(p.tile_columns) * static_cast<u32>(p.batch);
}

/// The tiles of one cluster.
template <class S> struct TileWalk {
  const MatmulParams& p;
  u32 neighbour, next;

  JAXATOR_DEVICE TileWalk(const MatmulParams& params, u32 neighbour_) : p(params), neighbour(neighbour_), next(cluster_x()) {}
  JAXATOR_DEVICE bool get(TilePlace& tile) {
    if (next >= cluster_tiles(p) * static_cast<u32>(p.parts)) return false;
    tile = place_of(p, next, neighbour, S::kRows, S::kColumns);
    tile.unit = next * static_cast<u32>(p.pair) + neighbour;
    next += clusters_x();
    return true;
  }
};

/// acc = the steps' products, for at least kLeastSteps steps. `released(stage)` is called when this warpgroup has read a stage;
/// `meanwhile(i)`, for each of the first kLeastSteps steps, when the matrix unit has work.
template <class S, class Released, class Meanwhile>
JAXATOR_DEVICE void multiply(float (&acc)[S::kRegisters], RingPosition<S::kStages>& ring, u32 shared, u32 group, int steps,
                             Released&& released, Meanwhile&& meanwhile) {
  const u32 offset_a = S::A::offset(S::kRows == 128 ? group * 64 : 0);
  const u32 offset_b = S::kBytesA + S::B::offset(S::kRows == 128 ? 0 : group * S::kGroupColumns);
  const auto step = [&](u32 accumulate) {
    barrier_wait(shared + S::kFull + 8 * ring.stage, ring.parity);
    const u32 stage = shared + ring.stage * S::kStageBytes;
    const u64 a = S::A::descriptor(stage + offset_a), b = S::B::descriptor(stage + offset_b);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < S::A::kProducts; i++)
      wgmma<typename S::T, S::A::kTransposed, S::B::kTransposed>(acc, a + S::A::advance(i), b + S::B::advance(i),
                                                                 i == 0 ? accumulate : 1);
    wgmma_commit();
  };
  u32 last = 0;
  const auto retire = [&](bool has_last) {
    wgmma_wait<1>();
    if (has_last) released(last);
    last = ring.stage;
    ring.advance();
  };
#pragma unroll
  for (int k = 0; k < kLeastSteps; k++) {
    step(k != 0);
    meanwhile(k);
    retire(k != 0);
  }
#pragma unroll 1
  for (int k = kLeastSteps; k < steps; k++) {
    step(1);
    retire(true);
  }
  wgmma_wait_for<0>(acc);
  released(last);
}

}  // namespace jaxator::hopper
