/// @file
/// What both passes do with a tile of logits: scale, bias, mask, visibility. Query rows are in the lanes, keys in the rows.
#pragma once

#include <limits>

#include "src/ops/attention/scratch.h"
#include "src/tile/cpu/dot.h"
#include "src/tile/cpu/exp.h"
#include "src/tile/cpu/transpose.h"

namespace jaxator::JAXATOR_ISA {

inline constexpr float kInvisible = -std::numeric_limits<float>::infinity();

/// Arguments that forward and backward share.
struct Operands {
  const void *q, *k, *v, *bias;
  const uint8_t* mask;
  const int32_t *query_lengths, *key_lengths, *query_segments, *key_segments;
};

inline Operands operands_of(const AttentionDesc& desc, const AttentionInputs& args) {
  return {args.q,
          args.k,
          args.v,
          desc.has_bias ? args.bias : nullptr,
          desc.has_mask ? args.mask : nullptr,
          desc.has_query_lengths ? args.query_lengths : nullptr,
          desc.has_key_lengths ? args.key_lengths : nullptr,
          desc.has_segment_ids ? args.query_segment_ids : nullptr,
          desc.has_segment_ids ? args.key_segment_ids : nullptr};
}

/// One batch entry and key/value head.
struct HeadGroup {
  const AttentionDesc& desc;
  const Operands& in;
  int64_t batch, kv_head, group;  // group = heads per key/value head
  BatchLimits limits;

  HeadGroup(const AttentionDesc& d, const Operands& operands, int64_t index)
      : desc(d),
        in(operands),
        batch(index / d.kv_heads),
        kv_head(index % d.kv_heads),
        group(heads_per_group(d)),
        limits(limits_of(d, operands.query_lengths, operands.key_lengths, batch)) {}

  int64_t head(int64_t row) const { return kv_head * group + row % group; }
  /// Index into [B,T,N] and [B,S,K].
  int64_t query_index(int64_t row) const { return (batch * desc.query_length + row / group) * desc.heads + head(row); }
  int64_t key_index(int64_t key) const { return (batch * desc.key_length + key) * desc.kv_heads + kv_head; }
};

/// Element of key 0 in an array of this broadcast shape.
inline int64_t broadcast_offset(const int64_t (&shape)[4], int64_t batch, int64_t head, int64_t query) {
  const int64_t b = shape[0] == 1 ? 0 : batch, n = shape[1] == 1 ? 0 : head, t = shape[2] == 1 ? 0 : query;
  return ((b * shape[1] + n) * shape[2] + t) * shape[3];
}

/// Fills rows for up to kTileColumns rows from first, none from `end` on. skip(row) names further rows to leave out.
template <class Skip> void set_rows(const HeadGroup& head, int64_t first, int64_t end, Skip&& skip, TileRows& rows) {
  const AttentionDesc& desc = head.desc;
  rows.first_row = first;
  rows.rows = std::clamp<int64_t>(end - first, 0, kTileColumns);
  rows.any_live = false;
  rows.same_bias = rows.same_mask = true;
  rows.segment_min = std::numeric_limits<int32_t>::max();
  rows.segment_max = -1;
  rows.inner = {0, std::numeric_limits<int64_t>::max()};
  int64_t first_query = 0, last_query = 0;
  int first_lane = 0;
  for (int i = 0; i < kTileColumns; i++) {
    const int64_t row = first + i, query = row / head.group;
    rows.lower[i] = 0;
    rows.upper[i] = rows.segment[i] = -1;
    rows.bias[i] = rows.mask[i] = 0;
    rows.live[i] = i < rows.rows && query < head.limits.queries && !skip(row);
    if (!rows.live[i]) continue;
    if (head.in.query_segments != nullptr) {
      const int32_t id = head.in.query_segments[head.batch * desc.query_length + query];
      if (!(rows.live[i] = id >= 0)) continue;
      rows.segment[i] = id;
      rows.segment_min = std::min(rows.segment_min, id);
      rows.segment_max = std::max(rows.segment_max, id);
    }
    const KeySpan keys = keys_of_query(desc, head.limits, query);
    rows.lower[i] = static_cast<int32_t>(std::min(keys.begin, head.limits.keys));
    rows.upper[i] = static_cast<int32_t>(keys.end - 1);
    rows.inner = {std::max(rows.inner.begin, keys.begin), std::min(rows.inner.end, keys.end)};
    if (desc.has_bias) rows.bias[i] = broadcast_offset(desc.bias_shape, head.batch, head.head(row), query);
    if (desc.has_mask) rows.mask[i] = broadcast_offset(desc.mask_shape, head.batch, head.head(row), query);
    if (!rows.any_live) {
      first_query = query;
      first_lane = i;
    }
    rows.any_live = true;
    last_query = query;
    rows.same_bias = rows.same_bias && rows.bias[i] == rows.bias[first_lane];
    rows.same_mask = rows.same_mask && rows.mask[i] == rows.mask[first_lane];
  }
  rows.keys = rows.any_live ? keys_of_tile(desc, head.limits, first_query, last_query) : KeySpan{0, 0};
  for (int i = 0; i < kTileColumns; i++)  // so that a padding lane never reads where a live one would not
    if (!rows.live[i]) {
      rows.bias[i] = rows.bias[first_lane];
      rows.mask[i] = rows.mask[first_lane];
    }
}

inline void set_keys(const HeadGroup& head, int64_t begin, int64_t count, TileKeys& keys) {
  keys.begin = begin;
  keys.count = std::clamp<int64_t>(head.limits.keys - begin, 0, count);
  keys.segment_min = std::numeric_limits<int32_t>::max();
  keys.segment_max = -1;
  keys.has_padding = keys.count < count;
  if (head.in.key_segments == nullptr) return;
  for (int64_t j = 0; j < count; j++) {
    const int32_t id = j < keys.count ? head.in.key_segments[head.batch * head.desc.key_length + begin + j] : -1;
    keys.segment[j] = id < 0 ? -2 : id;
    keys.has_padding = keys.has_padding || id < 0;
    if (id < 0) continue;
    keys.segment_min = std::min(keys.segment_min, id);
    keys.segment_max = std::max(keys.segment_max, id);
  }
}

/// Padding is not packed.
inline bool exists(const HeadGroup& head, const TileKeys& keys, int64_t j) {
  return j < keys.count && (head.in.key_segments == nullptr || keys.segment[j] >= 0);
}

enum class SegmentTest { none, lanes, disjoint };

inline SegmentTest segment_test(const HeadGroup& head, const TileRows& rows, const TileKeys& keys) {
  if (head.in.key_segments == nullptr) return SegmentTest::none;
  if (keys.segment_max < rows.segment_min || keys.segment_min > rows.segment_max) return SegmentTest::disjoint;
  const bool one = keys.segment_min == keys.segment_max && rows.segment_min == rows.segment_max && !keys.has_padding;
  return one ? SegmentTest::none : SegmentTest::lanes;
}

/// Logits of one register tile of keys, the first at index p of the tile: scaled, with bias; -inf where invisible, always by
/// selection. The tests are skipped where every live lane sees every key.
JAXATOR_INLINE void finish_logits(Tile& c, float scale, const TileRows& rows, const TileKeys& keys, int64_t p, const float* added,
                                  SegmentTest segments) {
  const f32v scales = splat(scale), invisible = splat(kInvisible);
  for_tile([&](int r, int v) { c.at[r][v] *= scales; });
  if (added != nullptr)
    for_tile([&](int r, int v) {
      const f32v x = load<f32v>(added + (p + r) * kTileColumns + v * kLanes);
      c.at[r][v] = select(x == invisible, invisible, c.at[r][v] + x);
    });
  const int64_t first = keys.begin + p;
  if (first < rows.inner.begin || first + kTileRows > rows.inner.end)
    for_tile([&](int r, int v) {
      const i32v key = splat(static_cast<int32_t>(first + r));
      const i32v visible = (key >= load<i32v>(rows.lower + v * kLanes)) & (key <= load<i32v>(rows.upper + v * kLanes));
      c.at[r][v] = select(visible, c.at[r][v], invisible);
    });
  if (segments == SegmentTest::lanes)
    for_tile([&](int r, int v) {
      const i32v same = load<i32v>(rows.segment + v * kLanes) == splat(keys.segment[p + r]);
      c.at[r][v] = select(same, c.at[r][v], invisible);
    });
}

// ---- bias and mask --------------------------------------------------------------------------------------------------
/// A row of 2 KiB or more apart from the next is no stream that hardware prefetches: ask for the next tile's part of it.
inline constexpr int64_t kKeysAhead = 128;

template <class T> JAXATOR_INLINE f32v bias_row(const void* bias, int64_t at, bool along_keys, int64_t j, int n) {
  const T* p = static_cast<const T*>(bias) + at;
  if (!along_keys) return splat(to_float(*p));
  __builtin_prefetch(p + j + kKeysAhead);
  return n == kLanes ? load_f32(p + j) : load_f32(p + j, n);
}

JAXATOR_INLINE i32v mask_row(const uint8_t* mask, int64_t at, bool along_keys, int64_t j, int n) {
  if (!along_keys) return splat(static_cast<int32_t>(mask[at])) != 0;
  typedef uint8_t bytes __attribute__((vector_size(kLanes)));
  const uint8_t* p = mask + at + j;
  if (n == kLanes) return (i32v) __builtin_convertvector(load<bytes>(p), u32v) != 0;
  bytes b{};
  __builtin_memcpy(&b, p, static_cast<size_t>(n));
  return (i32v) __builtin_convertvector(b, u32v) != 0;
}

/// What bias and mask add to a row tile's logits; Bias is the bias's element type.
template <class Bias> struct Added {
  const HeadGroup& head;
  const TileRows& rows;
  const TileKeys& keys;
  const bool bias_along = head.desc.bias_shape[3] != 1, mask_along = head.desc.mask_shape[3] != 1;

  /// One lane, keys [p, p + n) of the tile: its bias, -inf where the mask is zero.
  JAXATOR_INLINE f32v row(int lane, int64_t p, int n) const {
    const int64_t j = keys.begin + p;
    f32v x{};
    if (head.in.bias != nullptr) x = bias_row<Bias>(head.in.bias, rows.bias[lane], bias_along, j, n);
    if (head.in.mask != nullptr) x = select(mask_row(head.in.mask, rows.mask[lane], mask_along, j, n), x, splat(kInvisible));
    return x;
  }

  /// Keys [begin, end) of the tile. Lanes that are padding get 0, as do keys past the length.
  void fill(int64_t begin, int64_t end, float* added) const {
    const bool same = rows.same_bias && rows.same_mask;
    for (int64_t p = begin; p < end; p += kLanes) {
      const int n = static_cast<int>(std::clamp<int64_t>(keys.count - p, 0, kLanes));
      const int filled = static_cast<int>(std::min<int64_t>(kLanes, end - p));
      if (same) {  // one row for all lanes: key i is a splat
        float value[kLanes]{};
        if (n > 0) store(value, row(0, p, n));
        for (int i = 0; i < filled; i++)
          for (int v = 0; v < kTileVectors; v++) store(added + (p + i) * kTileColumns + v * kLanes, splat(value[i]));
        continue;
      }
      for (int v = 0; v < kTileVectors; v++) {
        u32v block[kLanes];
#pragma GCC unroll 16
        for (int i = 0; i < kLanes; i++) block[i] = n > 0 && rows.live[v * kLanes + i] ? (u32v)row(v * kLanes + i, p, n) : u32v{};
        transpose(block);
        for (int i = 0; i < filled; i++) store(added + (p + i) * kTileColumns + v * kLanes, block[i]);
      }
    }
  }
};

inline void set_added(const HeadGroup& head, const TileRows& rows, const TileKeys& keys, int64_t begin, int64_t end,
                      float* added) {
  if (head.desc.bias_type == DType::f32)
    Added<float>{head, rows, keys}.fill(begin, end, added);
  else if (head.desc.bias_type == DType::bf16)
    Added<Bf16>{head, rows, keys}.fill(begin, end, added);
  else
    Added<Fp16>{head, rows, keys}.fill(begin, end, added);
}

}  // namespace jaxator::JAXATOR_ISA
