/// @file
/// The warp that feeds attention forward: copies tiles of queries, keys and values, in the order in which they are used.
#pragma once

#include "src/ops/attention/hopper_forward_schedule.h"
#include "src/ops/attention/hopper_forward_shared.h"
#include "src/tile/hopper/memory.h"

namespace jaxator::hopper::attention {

/// One warp. Its first lane starts the copies; all lanes clean values.
template <ForwardTile Tile, bool Pairs> class ForwardProducer {
 public:
  JAXATOR_DEVICE ForwardProducer(const ForwardParams& params, const ForwardMaps& maps, ForwardShared<Tile> shared)
      : params_(params), maps_(maps), shared_(shared) {
    queries_.parity = keys_.parity = values_.parity = 1;  // every buffer starts out empty
  }

  JAXATOR_DEVICE void run() {
    ForwardSchedule schedule(params_);
    for (u32 at; schedule.next(at);) {
      item_ = item_at<Tile.queries>(params_, at);
      limits_ = limits_of(params_.visibility, item_.batch);
      const Interval tiles = key_tiles<Tile.queries, Tile.keys>(params_.visibility, limits_, item_.query);
      load_queries();
      load_tiles(tiles);
    }
  }

 private:
  /// Values are needed one tile later than keys.
  JAXATOR_DEVICE void load_tiles(Interval tiles) {
    TileWalk<Tile, Pairs> walk(params_.visibility, item_, tiles);
    if (!walk.next(params_.visibility, item_.batch)) return;
    load_keys(walk.tile);
    int before = walk.tile;
#pragma unroll 1
    while (walk.next(params_.visibility, item_.batch)) {
      load_keys(walk.tile);
      load_values(before);
      before = walk.tile;
    }
    load_values(before);
  }

  JAXATOR_DEVICE void load_queries() {
    barrier_wait(shared_.query_empty(queries_.stage), queries_.parity);
    if (thread_x() == 0) {
      const u32 full = shared_.query_full(queries_.stage);
      barrier_expect(full, Tile.query_bytes());
#pragma unroll
      for (int c = 0; c < Tile.head_size; c += 64)
        tma_load(shared_.query(queries_.stage) + c * Tile.queries * 2, maps_.q, full, c, item_.head, item_.query, item_.batch);
    }
    queries_.advance();
  }

  JAXATOR_DEVICE void load_keys(int tile) {
    barrier_wait(shared_.key_empty(keys_.stage), keys_.parity);
    if (thread_x() == 0) {
      const u32 full = shared_.key_full(keys_.stage);
      barrier_expect(full, Tile.key_bytes());
#pragma unroll
      for (int c = 0; c < Tile.head_size; c += 64)
        tma_load(shared_.key(keys_.stage) + c * Tile.keys * 2, maps_.k, full, c, item_.key_head, tile * Tile.keys, item_.batch);
    }
    keys_.advance();
  }

  /// A probability of 0 does not hide a NaN in the values: padding is zeroed before the consumers see the tile.
  JAXATOR_DEVICE void load_values(int tile) {
    barrier_wait(shared_.value_empty(values_.stage), values_.parity);
    const bool dirty = has_padding(tile);
    const u32 full = shared_.value_full(values_.stage), values = shared_.value(values_.stage);
    if (thread_x() == 0) {
      const u32 barrier = dirty ? shared_.landed() : full;
      barrier_expect(barrier, Tile.value_bytes());
#pragma unroll
      for (int c = 0; c < Tile.value_size; c += 64)
        tma_load(values + c * Tile.keys * 2, maps_.v, barrier, c, item_.key_head, tile * Tile.keys, item_.batch);
    }
    if (dirty) {
      barrier_wait(shared_.landed(), landed_parity_);
      landed_parity_ ^= 1;
      clean(values, tile);
      fence_shared_for_async();
      warp_sync();
      if (thread_x() == 0) barrier_arrive(full);
    }
    values_.advance();
  }

  /// Of a key that the array has: beyond it the copy engine reads zeros.
  JAXATOR_DEVICE bool is_padding(int key) const {
    if (key >= params_.visibility.key_length) return false;
    if (key >= limits_.keys) return true;
    if constexpr (Pairs) {
      const int* segments = params_.visibility.key_segments;
      return segments != nullptr && segments[static_cast<i64>(item_.batch) * params_.visibility.key_length + key] < 0;
    }
    return false;
  }

  JAXATOR_DEVICE bool has_padding(int tile) const {
    const int first = tile * Tile.keys;
    bool padding = first + Tile.keys > limits_.keys && limits_.keys < params_.visibility.key_length;
    if constexpr (Pairs) {
      if (params_.visibility.key_segments != nullptr)
        for (int key = 0; key < Tile.keys; key += 32) padding = padding || is_padding(first + key + static_cast<int>(thread_x()));
      padding = warp_any(padding);
    }
    return padding;
  }

  JAXATOR_DEVICE void clean(u32 values, int tile) const {
#pragma unroll 1
    for (int row = static_cast<int>(thread_x()); row < Tile.keys; row += 32) {
      if (!is_padding(tile * Tile.keys + row)) continue;
#pragma unroll 1
      for (int c = 0; c < Tile.value_size * 2; c += 16)
        store_shared(values + (c / 128) * Tile.keys * 128 + row * 128 + c % 128, Vector{});
    }
  }

  const ForwardParams& params_;
  const ForwardMaps& maps_;
  ForwardShared<Tile> shared_;
  RingPosition<Tile.query_stages> queries_;
  RingPosition<Tile.key_stages> keys_, values_;
  u32 landed_parity_ = 0;
  ForwardItem item_;
  Limits limits_;
};

}  // namespace jaxator::hopper::attention
