/// @file
/// A block's life: barriers, then one warpgroup that loads and two that multiply, over the tiles of its cluster.
///
/// A loader is a class with `kArrivals`, the threads that arrive at a full stage, and `load(place, tile, ring)`, which the first
/// kArrivals threads of the loading warpgroup call for each tile.
#pragma once

#include "src/ops/matmul/hopper_finish.h"

namespace jaxator::hopper {

template <class S, class Loader> JAXATOR_DEVICE void load_tiles(const MatmulParams& p, const Loader& loader, u32 thread) {
  const ClusterPlace place(p);
  TileWalk<S> tiles(p, place);
  RingPosition<S::kStages> ring;
  for (TilePlace tile; tiles.get(tile);) {
    if (thread < Loader::kArrivals) loader.load(place, tile, ring);
    if (p.splits > 1) cluster_sync(), cluster_sync();  // as in finish
  }
}

/// Where a warpgroup that multiplies stands.
template <class S> struct Progress {
  TileWalk<S>& tiles;
  RingPosition<S::kStages>& ring;
  Staging& staging;
};

/// Multiplies and finishes all tiles that are left; with Defer the whole ones, as in Deferred. Two loops, as a tile that waits
/// and the epilogue's values together are more than the registers hold.
template <class S, bool Defer>
JAXATOR_DEVICE void multiply_tiles(const MatmulParams& p, const ResultMaps& maps, u32 shared, u32 group,
                                   const ClusterPlace& place, const Progress<S>& at) {
  const auto get = [&](TilePlace& tile) { return Defer ? at.tiles.get_whole(tile) : at.tiles.get(tile); };
  const auto released = [&](u32 stage) {
    if (at.staging.thread < static_cast<u32>(p.pair))
      barrier_arrive_at(shared + S::kEmpty + 8 * stage, place.split * static_cast<u32>(p.pair) + at.staging.thread);
  };
  Deferred<S> deferred(at.staging, maps);
  float acc[S::kRegisters] = {};  // defined here: an undefined accumulator is live from the kernel's entry, and spills
  TilePlace tile{}, next{};
  bool more = get(tile);
  while (more) {
    tile.row += S::kRows == 128 ? static_cast<int>(group) * 64 : 0;
    tile.column += S::kRows == 128 ? 0 : static_cast<int>(group) * S::kGroupColumns;
    multiply<S>(acc, at.ring, shared, group, tile.steps, released, [&](int i) {
      if constexpr (Defer)
        deferred.store(i);
      else if (i == 0 && tile.shared != kLeavesSums)
        prefetch_residual<typename S::T>(p, {tile.row, tile.column, tile.batch, S::kGroupColumns}, at.staging.thread);
      if (Defer && i == 1) more = get(next);
    });
    if constexpr (Defer)
      deferred.take(acc, p, tile);
    else
      finish<S>(acc, p, tile, maps, at.staging, shared, group, place), more = get(next);
    tile = next;
  }
  if constexpr (Defer) deferred.store_all();
}

template <class S>
JAXATOR_DEVICE void multiply_all(const MatmulParams& p, const ResultMaps& maps, u32 shared, u32 group, u32 thread) {
  const ClusterPlace place(p);
  TileWalk<S> tiles(p, place);
  RingPosition<S::kStages> ring;
  Staging staging(shared + S::kStaging, group, thread);
  if constexpr (S::kMayDefer)
    if (may_defer(p)) multiply_tiles<S, true>(p, maps, shared, group, place, {tiles, ring, staging});
  multiply_tiles<S, false>(p, maps, shared, group, place, {tiles, ring, staging});
  if (thread == 0) tma_wait_read<0>();  // shared memory must live until then; the writes end with the kernel
}

template <class S, class Loader> JAXATOR_DEVICE void run(const MatmulParams& p, const ResultMaps& maps, const Loader& loader) {
  const u32 shared = shared_base(), thread = thread_x();
  if (thread == 0) {
    for (u32 s = 0; s < S::kStages; s++) {
      barrier_init(shared + S::kFull + 8 * s, Loader::kArrivals);
      barrier_init(shared + S::kEmpty + 8 * s, kGroups * static_cast<u32>(p.pair));
    }
    fence_barrier_init();
  }
  cluster_sync();
  if (thread < kGroupThreads) {
    shrink_registers<S::kProducerRegisters>();
    load_tiles<S>(p, loader, thread);
  } else {
    grow_registers<S::kConsumerRegisters>();
    multiply_all<S>(p, maps, shared, thread / kGroupThreads - 1, thread % kGroupThreads);
  }
  cluster_sync();  // the neighbour's last arrivals are for barriers of this block
}

}  // namespace jaxator::hopper
