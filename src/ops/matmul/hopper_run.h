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
  TileWalk<S> tiles(p, place.neighbour);
  RingPosition<S::kStages> ring;
  for (TilePlace tile; tiles.get(tile);) {
    if (thread < Loader::kArrivals) loader.load(place, tile, ring);
    if (p.splits > 1) cluster_sync(), cluster_sync();  // as in finish
  }
}

/// Multiplies and finishes tiles. Defer: see Deferred; in a loop of its own, as a tile that waits and the epilogue's values
/// together are more than the registers hold.
template <class S, bool Defer>
JAXATOR_DEVICE void multiply_tiles(const MatmulParams& p, const ResultMaps& maps, u32 shared, u32 group, u32 thread) {
  const ClusterPlace place(p);
  TileWalk<S> tiles(p, place.neighbour);
  RingPosition<S::kStages> ring;
  Staging staging(shared + S::kStaging, group, thread);
  Deferred<S> deferred(staging, maps);
  const auto released = [&](u32 stage) {
    if (thread < static_cast<u32>(p.pair))
      barrier_arrive_at(shared + S::kEmpty + 8 * stage, place.split * static_cast<u32>(p.pair) + thread);
  };
  float acc[S::kRegisters] = {};  // defined here: an undefined accumulator is live from the kernel's entry, and spills
  TilePlace tile{}, next{};
  bool more = tiles.get(tile);
  while (more) {
    const StepRange range(p, place, tile);
    multiply<S>(acc, ring, shared, group, range.end - range.first, released, [&](int i) {
      if constexpr (Defer) deferred.store(i);
      if (i == 0) more = tiles.get(next);
    });
    tile.row += S::kRows == 128 ? static_cast<int>(group) * 64 : 0;
    tile.column += S::kRows == 128 ? 0 : static_cast<int>(group) * S::kGroupColumns;
    if constexpr (Defer)
      deferred.take(acc, p, tile);
    else
      finish<S>(acc, p, tile, maps, staging, shared, group, place);
    tile = next;
  }
  if constexpr (Defer) deferred.store_all();
  if (thread == 0) tma_wait<0>();
}

template <class S> JAXATOR_DEVICE void multiply_all(const MatmulParams& p, const ResultMaps& maps, u32 shared, u32 group,
                                                    u32 thread) {
  if constexpr (S::kMayDefer)
    if (may_defer(p)) return multiply_tiles<S, true>(p, maps, shared, group, thread);
  multiply_tiles<S, false>(p, maps, shared, group, thread);
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
