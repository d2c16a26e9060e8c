/// @file
/// The warps that feed the main backward kernel: a thread that loads, a warp that clears rows which may hold NaN, two threads
/// that add blocks of dq to memory. They have 24 registers a thread, so they read what they can from shared and constant memory.
#pragma once

#include "src/ops/attention/hopper_backward_schedule.h"
#include "src/tile/hopper/bulk.h"
#include "src/tile/hopper/tma.h"

namespace jaxator::hopper::attention {

/// 64 columns at a time; columns past the head size arrive as zeros.
template <int kHead> JAXATOR_DEVICE void load_tile(u32 to, u32 half_bytes, const TensorMap& map, u32 barrier, int head, int row,
                                                   int batch) {
#pragma unroll
  for (int i = 0; i < kHead / 64; i++) tma_load(to + i * half_bytes, map, barrier, 64 * i, head, row, batch);
}

template <int kHead, bool kPairs> struct BackwardLoader {
  using Layout = BackwardLayout<kHead, kPairs>;
  const BackwardParams& p;
  const TensorMap &q, &k, &v, &dout;
  Layout shared;
  RingPosition<Layout::kStages> ring{0, 1};  // a free barrier's phase before the first counts as complete

  JAXATOR_DEVICE void keys(const Item& item) {
    item.store(shared.item());
    const u32 ready = p.rows_may_be_dead ? shared.keys_raw() : shared.keys_ready();
    if (item.count == 0) return barrier_arrive(ready);
    barrier_expect(ready, 2 * Layout::kKeyTile);
    const int row = item.key_block * Layout::kKeys;
    load_tile<kHead>(shared.key(), Layout::kHalfKeys, k, ready, item.kv_head, row, item.batch);
    load_tile<kHead>(shared.value(), Layout::kHalfKeys, v, ready, item.kv_head, row, item.batch);
  }

  JAXATOR_DEVICE void block(const Item& item, const Limits& limits, int query_block, int head) {
    constexpr u32 kBytes = Layout::kQueryTile + Layout::kRowValues;
    const u32 stage = ring.stage;
    const int row = query_block * Layout::kQueries;
    barrier_wait(shared.stage_free(stage), ring.parity);
    ring.advance();
    store_band<Layout::kQueries>(shared.band(stage), p, limits, item.key_block * Layout::kKeys, row);
    store_shared_int(shared.band(stage) + kBandBatch, item.batch), store_shared_int(shared.band(stage) + kBandHead, head);
    const i64 values = (static_cast<i64>(item.batch * p.heads + head) * p.query_blocks + query_block) * Layout::kQueries;
    u32 ready = p.rows_may_be_dead ? shared.stage_raw(stage) : shared.query_ready(stage);
    // With ids rows may be dead, so all of the stage arrives at one barrier.
    const bool with_ids = kPairs && p.query_ids != nullptr;
    barrier_expect(ready, (p.rows_may_be_dead ? 2 * kBytes : kBytes) + (with_ids ? Layout::kRowValues : 0));
    load_tile<kHead>(shared.query(stage), Layout::kHalfQueries, q, ready, head, row, item.batch);
    bulk_load(shared.lse(stage), p.lse2 + values, Layout::kRowValues, ready);
    if (!p.rows_may_be_dead) barrier_expect(ready = shared.dout_ready(stage), kBytes);
    load_tile<kHead>(shared.dout(stage), Layout::kHalfQueries, dout, ready, head, row, item.batch);
    bulk_load(shared.delta(stage), p.delta + values, Layout::kRowValues, ready);
    if (with_ids) {
      const i64 ids = (static_cast<i64>(item.batch) * p.query_blocks + query_block) * Layout::kQueries;
      bulk_load(shared.query_ids(stage), p.query_ids + ids, Layout::kRowValues, ready);
    }
  }

  JAXATOR_DEVICE void run() {
    const int group = p.heads / p.kv_heads;
    u32 parity = 1;
    int id = fetch_add(p.next_item, 1);
#pragma unroll 1
    for (;; parity ^= 1) {
      barrier_wait(shared.keys_free(), parity);
      if (id >= p.items) break;
      const Item item = item_of<Layout::kQueries>(p, id);
      keys(item);
      id = fetch_add(p.next_item, 1);
      const Limits limits = limits_of(p.see, item.batch);
#pragma unroll 1
      for (int i = item.count - 1; i >= 0; i--)
#pragma unroll 1
        for (int head = item.kv_head * group; head < (item.kv_head + 1) * group; head++)
          block(item, limits, item.first + i, head);
    }
    Item{-1, 0, 0, 0, 0}.store(shared.item());
    barrier_arrive(p.rows_may_be_dead ? shared.keys_raw() : shared.keys_ready());
  }
};

/// One warp. A product with a probability of 0 is NaN where the other factor is, so rows that do not count become zeros: keys and
/// values that are padding, q and dout of rows whose lse2 is inf.
template <int kHead, bool kPairs> struct BackwardCleaner {
  using Layout = BackwardLayout<kHead, kPairs>;
  const BackwardParams& p;
  Layout shared;

  template <u32 kHalf> JAXATOR_DEVICE static void clear_row(u32 tile, u32 row) {
#pragma unroll 1
    for (u32 at = 0; at < kHead * 2; at += 16) store_shared(tile + at / 128 * kHalf + row * 128 + at % 128, Vector{});
  }

  /// Segment id of a key, negative for padding.
  JAXATOR_DEVICE int id_of(const Item& item, int key, int keys) const {
    if (key >= keys) return -1;
    return p.see.key_segments == nullptr ? 0 : p.see.key_segments[static_cast<i64>(item.batch) * p.see.key_length + key];
  }

  JAXATOR_DEVICE void keys(const Item& item) const {
    const int keys = limits_of(p.see, item.batch).keys;
#pragma unroll 1
    for (u32 row = thread_x() % 32; row < Layout::kKeys; row += 32) {
      const int id = id_of(item, item.key_block * Layout::kKeys + row, keys);
      if constexpr (kPairs) store_shared_int(shared.key_ids() + row * 4, id);
      if (id >= 0) continue;
      clear_row<Layout::kHalfKeys>(shared.key(), row);
      clear_row<Layout::kHalfKeys>(shared.value(), row);
    }
  }

  JAXATOR_DEVICE void block(u32 stage) const {
#pragma unroll 1
    for (u32 row = thread_x() % 32; row < Layout::kQueries; row += 32)
      if (load_shared(shared.lse(stage) + row * 4) == __builtin_inff()) {
        clear_row<Layout::kHalfQueries>(shared.query(stage), row);
        clear_row<Layout::kHalfQueries>(shared.dout(stage), row);
      }
  }

  JAXATOR_DEVICE static void pass_on(u32 barrier, u32 other) {
    fence_shared_for_async();
    warp_sync();
    if (thread_x() % 32 == 0) barrier_arrive(barrier), barrier_arrive(other);
  }

  JAXATOR_DEVICE void run() const {
    const int group = p.heads / p.kv_heads;
    RingPosition<Layout::kStages> ring;
#pragma unroll 1
    for (u32 parity = 0;; parity ^= 1) {
      barrier_wait(shared.keys_raw(), parity);
      const Item item = Item::load(shared.item());
      if (item.key_block >= 0 && item.count > 0) keys(item);
      fence_shared_for_async();
      warp_sync();
      if (thread_x() % 32 == 0) barrier_arrive(shared.keys_ready());
      if (item.key_block < 0) return;
#pragma unroll 1
      for (int i = item.count * group; i > 0; i--, ring.advance()) {
        barrier_wait(shared.stage_raw(ring.stage), ring.parity);
        block(ring.stage);
        pass_on(shared.query_ready(ring.stage), shared.dout_ready(ring.stage));
      }
    }
  }
};

/// One of two threads: one takes the even blocks, the other the odd ones, so that one waits for its addition to arrive while the
/// other may already send.
template <int kHead, bool kPairs> struct BackwardAdder {
  using Layout = BackwardLayout<kHead, kPairs>;
  const BackwardParams& p;
  Layout shared;
  u32 mine;

  JAXATOR_DEVICE void add(i64 block, int turn, u32 count) const {
    int* turns = p.turns + block * kTurnWords;
    float* to = p.dq_sums + block * kDqBlock;
    while (load_acquire(turns) != turn) {
    }
    fence_global_for_async();
    barrier_wait(shared.dq_ready(mine), count >> 1 & 1);
    if (turn == 0)
      bulk_store(to, shared.dq(), kDqBlock * 4);
    else
      bulk_add(to, shared.dq(), kDqBlock * 4);
    tma_commit(), tma_wait_read<0>();
    barrier_arrive(shared.dq_free());
    tma_wait<0>();
    fence_global_for_async();
    add_release(turns, 1);
  }

  JAXATOR_DEVICE void run() const {
    const int group = p.heads / p.kv_heads;
    u32 count = 0;  // of blocks so far
#pragma unroll 1
    for (u32 parity = 0;; parity ^= 1) {
      barrier_wait(shared.keys_ready(), parity);
      const Item item = Item::load(shared.item());
      barrier_arrive(shared.keys_free());
      if (item.key_block < 0) return;
      const Limits limits = limits_of(p.see, item.batch);
      const int first_head = item.batch * p.heads + item.kv_head * group;
#pragma unroll 1
      for (int i = item.first + item.count - 1; i >= item.first; i--) {
        const int turn = item.key_block - key_blocks_of<Layout::kQueries>(p, limits, i).begin;
#pragma unroll 1
        for (int head = 0; head < group; head++, count++)
          if ((count & 1) == mine) add(static_cast<i64>(first_head + head) * p.query_blocks + i, turn, count);
      }
    }
  }
};

}  // namespace jaxator::hopper::attention
