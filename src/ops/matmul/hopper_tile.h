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

inline constexpr u32 kGroups = kMatmulGroups;
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

/// First row and column, the matrix, the steps that are this block's, and who else has steps of the tile.
struct TilePlace {
  int row, column, batch;
  int first, steps;
  int shared;
};
// TilePlace::shared; else the tile's first step among all shared ones, where this block has the last one and adds the others'
// sums.
inline constexpr int kAlone = -1, kLeavesSums = -2;

/// This block's place in its cluster.
struct ClusterPlace {
  u32 neighbour, split;
  JAXATOR_DEVICE explicit ClusterPlace(const MatmulParams& p) {
    const u32 rank = rank_in_cluster(), pair = static_cast<u32>(p.pair);
    split = rank / pair, neighbour = rank - split * pair;
  }
};

/// Place of the tile that the cluster `index` has, for its block `neighbour`. Tiles are walked in bands of `band` cluster rows,
/// so that what the clusters of one moment read fits the second-level cache: at 4096^3, bands of 4, 8 and 16 gave 776, 785 and
/// 778 TF.
JAXATOR_DEVICE TilePlace place_of(const MatmulParams& p, u32 index, u32 neighbour, int tile_rows, int tile_columns) {
  const u32 rows = static_cast<u32>(p.cluster_rows), band = static_cast<u32>(p.band),
            in_matrix = rows * static_cast<u32>(p.tile_columns);
  u32 matrix = 0;
  if (index >= in_matrix) matrix = index / in_matrix, index -= matrix * in_matrix;
  const u32 band_tiles = band * static_cast<u32>(p.tile_columns), base = index / band_tiles * band, in_band = index % band_tiles;
  const u32 height = rows - base < band ? rows - base : band, column = in_band / height, row = base + in_band - column * height;
  return {static_cast<int>(row * static_cast<u32>(p.pair) + neighbour) * tile_rows,
          static_cast<int>(column) * tile_columns,
          static_cast<int>(matrix),
          0,
          p.steps,
          kAlone};
}

/// Where a range of the shared tiles' steps begins. A cut close to a tile's end is moved there: no block has less than
/// kLeastSteps of a tile.
JAXATOR_DEVICE int stream_cut(const MatmulParams& p, int range) {
  const int at = range * p.stream_steps + (range < p.stream_extra ? range : p.stream_extra), in_tile = at % p.steps;
  if (in_tile < kLeastSteps) return at - in_tile;
  return p.steps - in_tile < kLeastSteps ? at + p.steps - in_tile : at;
}
/// The tiles of one block: the whole ones of its cluster, then those in its range of shared steps, last first. So a range begins
/// with the part of a tile that another cluster waits for, and ends with the tile for which it needs others' parts. These have
/// smaller numbers and thus run or are done: no deadlock, however few blocks run at a time.
template <class S> struct TileWalk {
  const MatmulParams& p;
  const ClusterPlace& place;
  u32 next;
  int begin = 0, end = -1;  // of the range that is left; -1: not begun

  JAXATOR_DEVICE TileWalk(const MatmulParams& params, const ClusterPlace& place_) : p(params), place(place_), next(cluster_x()) {}
  JAXATOR_DEVICE bool get_whole(TilePlace& tile) {
    if (next >= static_cast<u32>(p.whole)) return false;
    tile = place_of(p, next, place.neighbour, S::kRows, S::kColumns);
    if (p.splits > 1) {
      const u32 steps = static_cast<u32>(p.steps), splits = static_cast<u32>(p.splits);
      tile.first = static_cast<int>(steps * place.split / splits);
      tile.steps = static_cast<int>(steps * (place.split + 1) / splits) - tile.first;
    }
    next += clusters_x();
    return true;
  }
  JAXATOR_DEVICE bool get(TilePlace& tile) {
    if (get_whole(tile)) return true;
    const int range = static_cast<int>(cluster_x());
    if (range >= p.streams) return false;
    if (end < 0) begin = stream_cut(p, range), end = stream_cut(p, range + 1);
    if (begin >= end) return false;
    const int index = (end - 1) / p.steps, from = index * p.steps, first = begin > from ? begin - from : 0;
    tile = place_of(p, static_cast<u32>(p.whole + index), place.neighbour, S::kRows, S::kColumns);
    tile.first = first, tile.steps = end - from - first;
    if (end - from < p.steps)
      tile.shared = kLeavesSums;
    else if (first > 0)
      tile.shared = from;
    end = from + first;
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
