/// @file
/// Which tile of queries a block works on, and which tiles of keys it visits. Producer and consumers walk the same list.
#pragma once

#include "src/ops/attention/hopper_common.h"
#include "src/ops/attention/hopper_forward.h"

namespace jaxator::hopper::attention {

struct ForwardItem {
  u32 batch, head, key_head;
  int query;  // first of the tile
};

/// Item `at` of the list: last queries first, because under a causal mask they see most keys. Heads change fastest: blocks that
/// run together share keys.
template <int Queries> JAXATOR_DEVICE ForwardItem item_at(const ForwardParams& params, u32 at) {
  const u32 columns = params.batch * params.heads, column = at % columns;
  const u32 batch = column / params.heads, head = column % params.heads;
  return {batch, head, head / params.heads_per_key_head, static_cast<int>(params.tiles - 1 - at / columns) * Queries};
}

/// Deals the items to the blocks in rounds, every other round in reverse, so that each block gets about the same sum.
class ForwardSchedule {
 public:
  JAXATOR_DEVICE explicit ForwardSchedule(const ForwardParams& params) : last_(params.tiles * params.batch * params.heads) {}

  JAXATOR_DEVICE bool next(u32& at) {
    while (start_ < last_) {
      at = start_ + (reversed_ ? blocks_x() - 1 - block_x() : block_x());
      start_ += blocks_x(), reversed_ = !reversed_;
      if (at < last_) return true;  // else this block has none in the last round
    }
    return false;
  }

 private:
  u32 last_, start_ = 0;
  bool reversed_ = false;
};

/// Tiles of keys that queries [first, first + Count) see by causal, window and lengths; begin == end if none.
template <int Count, int Keys> JAXATOR_DEVICE Interval key_tiles(const Visibility& v, const Limits& limits, int first) {
  const int last = smaller(first + Count, limits.queries) - 1;
  if (last < first) return {0, 0};
  const int begin = keys_of_query(v, limits, first).begin, end = keys_of_query(v, limits, last).end;
  if (begin >= end) return {0, 0};
  return {begin / Keys, (end + Keys - 1) / Keys};
}

/// Segments of a run of queries or keys: all that are no padding lie in [low, high].
struct SegmentRange {
  int low = 0x7fffffff, high = -1;
  bool padded = false;  // has padding, or passes the end

  /// Whether some query of one and some key of the other may be of one segment.
  JAXATOR_DEVICE bool meets(const SegmentRange& other) const { return low <= other.high && other.low <= high; }
  /// Whether every query of one and every key of the other is.
  JAXATOR_DEVICE bool equals(const SegmentRange& other) const {
    return low == high && other.low == low && other.high == high && !padded && !other.padded;
  }
};

/// Of ids[first, first + Count), by a whole warp.
template <int Count> JAXATOR_DEVICE SegmentRange segment_range(const int* ids, int first, int length) {
  SegmentRange range;
  bool padded = false;
#pragma unroll
  for (int i = 0; i < Count; i += 32) {
    const int at = first + i + static_cast<int>(thread_x() % 32);
    const int id = at < length ? ids[at] : -1;
    padded = padded || id < 0;
    if (id >= 0) range.low = smaller(range.low, id), range.high = larger(range.high, id);
  }
  asm volatile("redux.sync.min.s32 %0, %0, -1;" : "+r"(range.low));
  asm volatile("redux.sync.max.s32 %0, %0, -1;" : "+r"(range.high));
  range.padded = warp_any(padded);
  return range;
}

/// The tiles of keys that an item visits, from the last to the first: with segments, only those that may hold one of the
/// queries'. Producer and consumers walk alike, as they read the same ids.
template <ForwardTile Tile, bool Pairs> class TileWalk {
 public:
  int tile;
  bool mixed = false;  // its pairs are not all of one segment

  JAXATOR_DEVICE TileWalk(const Visibility& v, const ForwardItem& item, Interval tiles) : tile(tiles.end), begin_(tiles.begin) {
    if constexpr (Pairs) {
      if (v.query_segments == nullptr || tiles.begin >= tiles.end) return;
      const i64 start = static_cast<i64>(item.batch) * v.query_length;
      queries_ = segment_range<Tile.queries>(v.query_segments + start, item.query, v.query_length);
    }
  }

  JAXATOR_DEVICE bool next(const Visibility& v, u32 batch) {
    while (--tile >= begin_)
      if (visits(v, batch)) return true;
    return false;
  }

 private:
  JAXATOR_DEVICE bool visits(const Visibility& v, u32 batch) {
    if constexpr (!Pairs) return true;
    if (v.key_segments == nullptr) return true;
    const i64 start = static_cast<i64>(batch) * v.key_length;
    const SegmentRange keys = segment_range<Tile.keys>(v.key_segments + start, tile * Tile.keys, v.key_length);
    mixed = !queries_.equals(keys);
    return queries_.meets(keys);
  }

  int begin_;
  SegmentRange queries_;
};

}  // namespace jaxator::hopper::attention
