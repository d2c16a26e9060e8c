/// @file
/// How a task's scratch is cut up: one function per pass, used both to count bytes and to hand out pointers. Sizes are in
/// 32-bit words (one float32 or two bfloat16) and depend on the instruction set only through its lanes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "src/ops/attention/config.h"
#include "src/ops/attention/visibility.h"

namespace jaxator {

/// Hands out pieces of a block, each on a cache line. A null base counts only.
class Carver {
 public:
  explicit Carver(void* base) : base_(reinterpret_cast<uintptr_t>(base)) {}
  template <class T> T* take(int64_t n) {
    T* piece = reinterpret_cast<T*>(base_ + used_);
    used_ += static_cast<uintptr_t>(round_up(n * static_cast<int64_t>(sizeof(T)), 64));
    return piece;
  }
  int64_t used() const { return static_cast<int64_t>(used_); }

 private:
  uintptr_t base_, used_ = 0;
};

/// What the lanes of one row tile may see, and where their bias and mask rows start.
struct TileRows {
  static constexpr int kMax = 32;
  alignas(64) int32_t lower[kMax], upper[kMax];  // first and last key visible by causal, window and lengths
  alignas(64) int32_t segment[kMax];             // -1 in rows that are padding
  int64_t query[kMax];
  int64_t bias[kMax], mask[kMax];  // element of key 0
  bool live[kMax];                 // a row of the problem that is not padding
  int64_t first_row, rows;         // of the batch entry and key/value head
  bool any_live, same_bias, same_mask;
  bool far;                          // backward: some lse is too large for exp(logit - lse), see BackwardTask::normalise
  int32_t segment_min, segment_max;  // of live rows
  KeySpan keys;                      // to visit
  KeySpan inner;                     // here every live row sees every key, segments aside
};

/// One tile of keys as packed.
struct TileKeys {
  static constexpr int kMax = 128;
  alignas(64) int32_t segment[kMax];  // -2 in keys that are padding
  int64_t begin, count;               // keys that exist
  int32_t segment_min, segment_max;   // of keys that are not padding; min > max if all are
  bool has_padding;
};

struct PackedSizes {
  int64_t head_words, value_words;      // words of a row of q or k; of v or dout
  int64_t head_rows, value_rows;        // columns of q or v as rows of register tiles
  int64_t head_columns, value_columns;  // the same as columns of register tiles

  PackedSizes(const AttentionDesc& desc, const AttentionConfig& config)
      : head_words(ceil_div(desc.head_size, config.group())),
        value_words(ceil_div(desc.value_size, config.group())),
        head_rows(round_up(desc.head_size, config.lanes)),
        value_rows(round_up(desc.value_size, config.lanes)),
        head_columns(round_up(desc.head_size, config.tile_columns())),
        value_columns(round_up(desc.value_size, config.tile_columns())) {}
};

/// Words of a panel [depth][width]. The gap puts panels in different sets of the first-level cache: without it they are a power
/// of two apart, a row that is packed across 16 of them falls in one or two sets, and the forward pass took 4 % longer on
/// Zen 5 and 7 % on Emerald Rapids.
inline int64_t panel_words(int64_t depth, int64_t width) { return depth * width + 16; }

struct ForwardScratch {
  TileKeys* key_tile;
  uint32_t* keys;    // [key tile / tile rows][head words / lanes][tile rows][lanes]
  uint32_t* values;  // [value rows / tile rows] panels of [key tile / group][tile rows]
  float* logits;     // [key tile][tile columns]; then the probabilities, as words
  float* added;      // bias and mask, the same shape
  int64_t tiles;     // row tiles of a task; what follows is per row tile
  TileRows* rows;
  uint32_t* queries;  // [head words][tile columns]
  float* out;         // [value rows][tile columns]
  float* max;         // [tile columns]
  float* sum;
};

inline ForwardScratch carve_forward(Carver& carver, const AttentionDesc& desc, const AttentionConfig& config) {
  const PackedSizes sizes(desc, config);
  const int64_t keys = config.forward_key_tile, columns = config.tile_columns();
  ForwardScratch s;
  s.key_tile = carver.take<TileKeys>(1);
  s.keys = carver.take<uint32_t>(keys * round_up(sizes.head_words, config.lanes));
  s.values =
      carver.take<uint32_t>(sizes.value_rows / config.tile_rows() * panel_words(keys / config.group(), config.tile_rows()));
  s.logits = carver.take<float>(keys * columns);
  s.added = carver.take<float>(keys * columns);
  s.tiles = config.forward_rows / columns;
  s.rows = carver.take<TileRows>(s.tiles);
  s.queries = carver.take<uint32_t>(s.tiles * sizes.head_words * columns);
  s.out = carver.take<float>(s.tiles * sizes.value_rows * columns);
  s.max = carver.take<float>(s.tiles * columns);
  s.sum = carver.take<float>(s.tiles * columns);
  return s;
}

/// Rows of a group: row tiles whose dk and dv are summed by one product, 64 deep.
inline constexpr int64_t kGroupRows = 64;

struct BackwardScratch {
  TileKeys* key_tile;
  uint32_t* keys;         // by rows, as in the forward pass
  uint32_t* values;       // by rows: [key tile / tile rows][value words / lanes][tile rows][lanes]
  uint32_t* key_columns;  // [head rows / tile rows] panels of [key tile / group][tile rows]; only where words are pairs
  float* probabilities;   // of one register tile: [tile rows][tile columns]
  uint32_t* p_rows;       // [key tile / tile rows][group words / lanes][tile rows][lanes]
  uint32_t* ds_rows;      // the same
  uint32_t* ds_columns;   // per row tile of the group: [key tile / group][tile columns]
  float* ds;              // with a bias gradient, per row tile of the group: [key tile][tile columns]
  float* added;           // [key tile][tile columns]
  int64_t tiles;          // row tiles of `backward_rows`; what follows is per row tile
  TileRows* rows;
  uint32_t* queries;  // [head words][tile columns]
  uint32_t* douts;    // [value words][tile columns]
  float* dq;          // [head rows][tile columns]
  float* shift;       // [tile columns]: probability = exp(logit - shift) * factor
  float* factor;      // for far rows, else unused
  float* delta;
  int64_t groups;           // what follows is per group
  uint32_t* query_columns;  // [head columns / tile columns] panels of [group words][tile columns]
  uint32_t* dout_columns;   // [value columns / tile columns] panels of [group words][tile columns]
};

inline BackwardScratch carve_backward(Carver& carver, const AttentionDesc& desc, const AttentionConfig& config) {
  const PackedSizes sizes(desc, config);
  const int64_t keys = config.backward_key_tile, columns = config.tile_columns(), words = kGroupRows / config.group();
  const int64_t tiles = kGroupRows / columns;
  BackwardScratch s;
  s.key_tile = carver.take<TileKeys>(1);
  s.keys = carver.take<uint32_t>(keys * round_up(sizes.head_words, config.lanes));
  s.values = carver.take<uint32_t>(keys * round_up(sizes.value_words, config.lanes));
  s.key_columns = carver.take<uint32_t>(
      config.group() == 1 ? 0 : sizes.head_rows / config.tile_rows() * panel_words(keys / config.group(), config.tile_rows()));
  s.probabilities = carver.take<float>(config.tile_rows() * columns);
  s.p_rows = carver.take<uint32_t>(keys * words);
  s.ds_rows = carver.take<uint32_t>(keys * words);
  s.ds_columns = carver.take<uint32_t>(keys / config.group() * kGroupRows);
  s.ds = carver.take<float>(desc.bias_gradient ? keys * kGroupRows : 0);
  s.added = carver.take<float>(keys * columns);
  s.tiles = config.backward_rows / columns;
  s.rows = carver.take<TileRows>(s.tiles);
  s.queries = carver.take<uint32_t>(s.tiles * sizes.head_words * columns);
  s.douts = carver.take<uint32_t>(s.tiles * sizes.value_words * columns);
  s.dq = carver.take<float>(s.tiles * sizes.head_rows * columns);
  s.shift = carver.take<float>(s.tiles * columns);
  s.factor = carver.take<float>(s.tiles * columns);
  s.delta = carver.take<float>(s.tiles * columns);
  s.groups = s.tiles / tiles;
  s.query_columns = carver.take<uint32_t>(s.groups * sizes.head_columns / columns * panel_words(words, columns));
  s.dout_columns = carver.take<uint32_t>(s.groups * sizes.value_columns / columns * panel_words(words, columns));
  return s;
}

/// Floats of one part's sums: dk, then dv, each [keys / tile rows][columns / tile columns][tile rows][tile columns].
inline int64_t sums_floats(const AttentionDesc& desc, const AttentionConfig& config) {
  const PackedSizes sizes(desc, config);
  return round_up(config.part_keys * (sizes.head_columns + sizes.value_columns), 16);
}

inline int64_t forward_slot_bytes(const AttentionDesc& desc, const AttentionConfig& config) {
  Carver carver(nullptr);
  carve_forward(carver, desc, config);
  return carver.used();
}
inline int64_t backward_slot_bytes(const AttentionDesc& desc, const AttentionConfig& config) {
  Carver carver(nullptr);
  carve_backward(carver, desc, config);
  if (config.parts == 1) carver.take<float>(sums_floats(desc, config));
  return carver.used();
}

inline int64_t forward_bytes(const AttentionDesc& desc, const AttentionConfig& config, int64_t slots) {
  return slots * forward_slot_bytes(desc, config);
}
inline int64_t backward_slots(const AttentionConfig& config, int64_t slots) {
  return config.parts == 1 ? std::min(slots, config.max_backward_slots) : slots;
}
/// With several parts their sums follow the slots, because they outlive the tasks.
inline int64_t backward_bytes(const AttentionDesc& desc, const AttentionConfig& config, int64_t slots) {
  const int64_t kept = config.parts == 1 ? 0 : desc.batch * desc.kv_heads * config.parts * sums_floats(desc, config) * 4;
  return backward_slots(config, slots) * backward_slot_bytes(desc, config) + kept;
}

}  // namespace jaxator
