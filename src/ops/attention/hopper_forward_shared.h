/// @file
/// Shared memory and barriers of attention forward, for producer and consumers.
#pragma once

#include "src/ops/attention/hopper_forward.h"
#include "src/tile/hopper/barrier.h"
#include "src/tile/hopper/tma.h"

namespace jaxator::hopper::attention {

struct ForwardMaps {
  const TensorMap &q, &k, &v, &out;
};

/// Addresses. Of each ring: a buffer is full when the copy engine has written it, empty when each consumer warpgroup says so.
template <ForwardTile Tile> struct ForwardShared {
  u32 base;

  JAXATOR_DEVICE u32 query(u32 stage) const { return base + stage * Tile.query_bytes(); }
  JAXATOR_DEVICE u32 key(u32 stage) const { return base + Tile.keys_at() + stage * Tile.key_bytes(); }
  JAXATOR_DEVICE u32 value(u32 stage) const { return base + Tile.values_at() + stage * Tile.value_bytes(); }

  JAXATOR_DEVICE u32 barrier(u32 i) const { return base + Tile.barriers_at() + 8 * i; }
  JAXATOR_DEVICE u32 query_full(u32 stage) const { return barrier(stage); }
  JAXATOR_DEVICE u32 query_empty(u32 stage) const { return barrier(Tile.query_stages + stage); }
  JAXATOR_DEVICE u32 key_full(u32 stage) const { return barrier(2 * Tile.query_stages + stage); }
  JAXATOR_DEVICE u32 key_empty(u32 stage) const { return barrier(2 * Tile.query_stages + Tile.key_stages + stage); }
  JAXATOR_DEVICE u32 value_full(u32 stage) const { return barrier(2 * Tile.query_stages + 2 * Tile.key_stages + stage); }
  JAXATOR_DEVICE u32 value_empty(u32 stage) const { return barrier(2 * Tile.query_stages + 3 * Tile.key_stages + stage); }
  /// Values that the producer cleans before they count as full.
  JAXATOR_DEVICE u32 landed() const { return barrier(2 * Tile.query_stages + 4 * Tile.key_stages); }

  JAXATOR_DEVICE void init() const {
    for (u32 i = 0; i < Tile.query_stages; i++) barrier_init(query_full(i), 1), barrier_init(query_empty(i), Tile.warpgroups());
    for (u32 i = 0; i < Tile.key_stages; i++) {
      barrier_init(key_full(i), 1), barrier_init(key_empty(i), Tile.warpgroups());
      barrier_init(value_full(i), 1), barrier_init(value_empty(i), Tile.warpgroups());
    }
    barrier_init(landed(), 1);
    fence_barrier_init();
  }
};

}  // namespace jaxator::hopper::attention
