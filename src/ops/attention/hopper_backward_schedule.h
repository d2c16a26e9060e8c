/// @file
/// What a block of the main backward kernel works on and where it lies in shared memory.
///
/// An item is 128 keys of one key/value head. Its block walks the query blocks that see any of the keys, last first, and in each
/// of them the heads of the group, so dk and dv are sums in registers. Items are handed out key block by key block, ascending. A
/// block of dq gets its sums in that order too: each item waits for its turn, so bits do not depend on timing. An item waits
/// only for items that were handed out before it, which run or are done: no deadlock, whatever runs at the same time.
#pragma once

#include "src/ops/attention/hopper_backward.h"
#include "src/ops/attention/hopper_common.h"
#include "src/tile/hopper/barrier.h"
#include "src/tile/hopper/memory.h"

namespace jaxator::hopper::attention {

/// Which pairs of a tile see each other by causal, window and lengths, counted from its first key and query: low <= key - query
/// <= low + width and key < keys. Left in shared memory at these offsets, with where the tile lies and where the queries end.
inline constexpr u32 kBandEdge = 0, kBandLow = 4, kBandWidth = 8, kBandKeys = 12, kBandQuery = 16, kBandKey = 20, kBandBatch = 24,
                     kBandHead = 28, kBandEnd = 32, kBandBytes = 48;

/// Shared memory of the main kernel: bytes from its start, and addresses.
template <int kHead, bool kPairs> struct BackwardLayout {
  static constexpr int kKeys = kBackwardKeys, kQueries = backward_queries(kHead);
  /// Of q, dout and their row values. Where a third one fits, loads may be late by a whole block.
  static constexpr int kStages = kHead == 128 && !kPairs ? 3 : 2;
  static constexpr u32 kHalfKeys = kKeys * 128, kHalfQueries = kQueries * 128;  // bytes of 64 columns
  static constexpr u32 kKeyTile = kKeys * kHead * 2, kQueryTile = kQueries * kHead * 2, kDsTile = kKeys * kQueries * 2;
  static constexpr u32 kRowValues = kQueries * 4;  // bytes of lse2 or delta of a block

  static constexpr u32 kKey = 0, kValue = kKeyTile, kQuery = 2 * kKeyTile, kDout = kQuery + kStages * kQueryTile,
                       kDs = kDout + kStages * kQueryTile, kDq = kDs + 2 * kDsTile, kLse = kDq + kDqBlock * 4,
                       kDelta = kLse + kStages * kRowValues, kBand = kDelta + kStages * kRowValues,
                       kItem = kBand + kStages * kBandBytes, kQueryIds = kItem + 32,
                       kKeyIds = kQueryIds + (kPairs ? kStages * kRowValues : 0), kBarriers = kKeyIds + (kPairs ? kKeys * 4 : 0);
  static constexpr u32 kBytes = kBarriers + 8 * (9 + 4 * kStages);
  static_assert(kBytes <= backward_shared_bytes(kHead) && backward_shared_bytes(kHead) <= 232448, "shared memory of a block");

  u32 start;
  JAXATOR_DEVICE u32 key() const { return start + kKey; }
  JAXATOR_DEVICE u32 value() const { return start + kValue; }
  JAXATOR_DEVICE u32 query(u32 stage) const { return start + kQuery + stage * kQueryTile; }
  JAXATOR_DEVICE u32 dout(u32 stage) const { return start + kDout + stage * kQueryTile; }
  JAXATOR_DEVICE u32 lse(u32 stage) const { return start + kLse + stage * kRowValues; }
  JAXATOR_DEVICE u32 delta(u32 stage) const { return start + kDelta + stage * kRowValues; }
  JAXATOR_DEVICE u32 band(u32 stage) const { return start + kBand + stage * kBandBytes; }  ///< kBand...
  JAXATOR_DEVICE u32 query_ids(u32 stage) const { return start + kQueryIds + stage * kRowValues; }
  JAXATOR_DEVICE u32 key_ids() const { return start + kKeyIds; }
  JAXATOR_DEVICE u32 ds(u32 which) const { return start + kDs + which * kDsTile; }
  JAXATOR_DEVICE u32 dq() const { return start + kDq; }
  JAXATOR_DEVICE u32 item() const { return start + kItem; }  ///< an Item

  // Barriers. "Raw" tiles have arrived and still may hold NaN in rows that do not count.
  JAXATOR_DEVICE u32 barrier(u32 i) const { return start + kBarriers + 8 * i; }
  JAXATOR_DEVICE u32 keys_ready() const { return barrier(0); }
  JAXATOR_DEVICE u32 keys_free() const { return barrier(1); }
  JAXATOR_DEVICE u32 keys_raw() const { return barrier(2); }
  JAXATOR_DEVICE u32 dq_free() const { return barrier(3); }
  JAXATOR_DEVICE u32 dq_ready(u32 which) const { return barrier(4 + which); }  ///< 2: for each of the adders
  JAXATOR_DEVICE u32 ds_ready(u32 which) const { return barrier(6 + which); }  ///< 2
  JAXATOR_DEVICE u32 query_ready(u32 stage) const { return barrier(8 + stage); }
  JAXATOR_DEVICE u32 dout_ready(u32 stage) const { return barrier(8 + kStages + stage); }
  JAXATOR_DEVICE u32 stage_free(u32 stage) const { return barrier(8 + 2 * kStages + stage); }
  JAXATOR_DEVICE u32 stage_raw(u32 stage) const { return barrier(8 + 3 * kStages + stage); }

  JAXATOR_DEVICE void init_barriers() const {
    constexpr u32 kConsumerWarps = 8, kWarpgroups = 2, kAdders = 2;
    barrier_init(keys_ready(), 1), barrier_init(keys_raw(), 1), barrier_init(keys_free(), kWarpgroups + kAdders);
    barrier_init(dq_free(), 1);
    for (u32 i = 0; i < 2; i++) barrier_init(dq_ready(i), kConsumerWarps), barrier_init(ds_ready(i), kConsumerWarps);
    for (u32 i = 0; i < kStages; i++) {
      barrier_init(query_ready(i), 1), barrier_init(dout_ready(i), 1), barrier_init(stage_raw(i), 1);
      barrier_init(stage_free(i), kWarpgroups);
    }
    fence_barrier_init();
  }
};

JAXATOR_DEVICE int load_shared_int(u32 address) {
  int value;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
  return value;
}
JAXATOR_DEVICE void store_shared_int(u32 address, int value) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

/// Work of one block, left in shared memory by its loader. key_block < 0: there is no more.
struct Item {
  int key_block, batch, kv_head;
  int first, count;  // query blocks first .. first + count - 1 see these keys

  JAXATOR_DEVICE void store(u32 to) const {
    store_shared_int(to, key_block), store_shared_int(to + 4, batch), store_shared_int(to + 8, kv_head);
    store_shared_int(to + 12, first), store_shared_int(to + 16, count);
  }
  JAXATOR_DEVICE static Item load(u32 from) {
    return {load_shared_int(from), load_shared_int(from + 4), load_shared_int(from + 8), load_shared_int(from + 12),
            load_shared_int(from + 16)};
  }
};

template <int kQueries> JAXATOR_DEVICE Item item_of(const BackwardParams& p, int id) {
  const int set = id / (p.planes_together * p.key_blocks), first = set * p.planes_together, rest = id - first * p.key_blocks;
  const int planes = smaller(p.planes_together, p.batch * p.kv_heads - first), plane = first + rest % planes;
  Item item{rest / planes, plane / p.kv_heads, plane % p.kv_heads, 0, 0};
  const Limits limits = limits_of(p.see, item.batch);
  const int first_key = item.key_block * kBackwardKeys, last_key = smaller(first_key + kBackwardKeys, limits.keys) - 1;
  if (first_key > last_key) return item;
  const Interval queries{queries_of_key(p.see, limits, first_key).begin, queries_of_key(p.see, limits, last_key).end};
  if (queries.begin >= queries.end) return item;
  item.first = queries.begin / kQueries;
  item.count = (queries.end + kQueries - 1) / kQueries - item.first;
  return item;
}

/// Key blocks that add to a block of dq: the inverse of item_of. Every one between the ends does, since the interval of queries
/// of a key block moves with the block.
template <int kQueries> JAXATOR_DEVICE Interval key_blocks_of(const BackwardParams& p, const Limits& limits, int query_block) {
  const int first = query_block * kQueries, last = smaller(first + kQueries, limits.queries) - 1;
  if (first > last) return {0, 0};
  const Interval keys{keys_of_query(p.see, limits, first).begin, keys_of_query(p.see, limits, last).end};
  if (keys.begin >= keys.end) return {0, 0};
  return {keys.begin / kBackwardKeys, (keys.end - 1) / kBackwardKeys + 1};
}

/// `edge` of what it stores is 0 where all pairs of the tile see each other.
template <int kQueries>
JAXATOR_DEVICE void store_band(u32 to, const BackwardParams& p, const Limits& limits, int first_key, int first_query) {
  constexpr int kFar = 1024;  // more than any difference in a tile
  const int offset = limits.shift + first_query - first_key, keys = limits.keys - first_key;
  const int high = p.see.window_right < kFar - offset ? larger(offset + p.see.window_right, -kFar) : kFar;
  const int low = p.see.window_left < offset + kFar ? smaller(offset - p.see.window_left, kFar) : -kFar;
  const bool all = high >= kBackwardKeys - 1 && low <= 1 - kQueries && keys >= kBackwardKeys;
  store_shared_int(to + kBandEdge, !all), store_shared_int(to + kBandLow, low);
  store_shared_int(to + kBandWidth, high - low), store_shared_int(to + kBandKeys, keys);
  store_shared_int(to + kBandQuery, first_query), store_shared_int(to + kBandKey, first_key);
  store_shared_int(to + kBandEnd, limits.queries);
}

}  // namespace jaxator::hopper::attention
