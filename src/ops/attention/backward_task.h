/// @file
/// Flash attention backward: one sweep, five products for each tile of 64 keys and 64 query rows.
///   P^T = exp(K Q^T - lse)   dP^T = V dO^T   dS^T = P^T (dP^T - delta)      queries in lanes, as in the forward pass
///   dV += P^T dO   dK += dS^T Q   dQ^T += K^T dS^T                          delta = rowsum(dO O) - dlse
/// Query rows are packed once and kept with their dQ; keys are packed as they pass; sums of dK and dV live in memory and are
/// fetched once for every 128 or 256 query rows.
#pragma once

#include <cmath>

#include "src/ops/attention/route.h"
#include "src/ops/attention/tile.h"
#include "src/tile/cpu/pack.h"

namespace jaxator::JAXATOR_ISA {

template <class R> struct BackwardTask {
  using Dot = typename R::Dot;
  using T = typename R::T;
  static constexpr int64_t group = Dot::group;
  static constexpr int64_t kGroupWords = kGroupRows / group, kGroupTiles = kGroupRows / kTileColumns;
  static constexpr int64_t kTileFloats = kTileRows * kTileColumns;

  const AttentionDesc& desc;
  const AttentionConfig& config;
  const AttentionBackwardArgs& args;
  const HeadGroup head;
  const PackedSizes sizes;
  const BackwardScratch s;

  int64_t key_panel() const { return round_up(sizes.head_words, kLanes) * kTileRows; }
  int64_t value_panel() const { return round_up(sizes.value_words, kLanes) * kTileRows; }
  int64_t key_column_panel() const { return panel_words(config.backward_key_tile / group, kTileRows); }
  static int64_t group_panel() { return panel_words(kGroupWords, kTileColumns); }
  uint32_t* query_columns(int64_t g) const { return s.query_columns + g * sizes.head_columns / kTileColumns * group_panel(); }
  uint32_t* dout_columns(int64_t g) const { return s.dout_columns + g * sizes.value_columns / kTileColumns * group_panel(); }
  uint32_t* queries(int64_t i) const { return s.queries + i * sizes.head_words * kTileColumns; }
  uint32_t* douts(int64_t i) const { return s.douts + i * sizes.value_words * kTileColumns; }
  float* dq(int64_t i) const { return s.dq + i * sizes.head_rows * kTileColumns; }
  uint32_t* ds_columns(int64_t ti) const { return s.ds_columns + ti * (config.backward_key_tile / group) * kTileColumns; }
  float* ds(int64_t ti) const { return s.ds + ti * config.backward_key_tile * kTileColumns; }

  /// Rows [first, end), at most backward_rows, against the keys of `limit`: visit(g, begin, end) is called with P and dS of
  /// group g and keys [begin, end) of the tile in scratch.
  template <class Visit> void sweep(int64_t first, int64_t end, KeySpan limit, Visit&& visit) const {
    KeySpan all{std::numeric_limits<int64_t>::max(), 0};
    const int64_t groups = ceil_div(end - first, kGroupRows);
    for (int64_t g = 0; g < groups; g++) {
      start_group(g, first + g * kGroupRows, end);
      const KeySpan keys = s.rows[g * kGroupTiles].keys;
      if (!keys.empty()) all = {std::min(all.begin, keys.begin), std::max(all.end, keys.end)};
    }
    for (int64_t i = 0; i < groups * kGroupTiles; i++)
      if (s.rows[i].far) normalise(i);
    all = {std::max(all.begin, limit.begin), std::min(all.end, limit.end)};
    for (int64_t at = all.begin; at < all.end; at += config.backward_key_tile) {
      const int64_t count = std::min(config.backward_key_tile, all.end - at);
      set_keys(head, at, count, *s.key_tile);
      pack_keys(count);
      for (int64_t g = 0; g < groups; g++) {
        const KeySpan keys = s.rows[g * kGroupTiles].keys;
        const int64_t from = std::max(keys.begin - at, int64_t{0}), to = std::min(keys.end - at, count);
        if (from >= to || disjoint(g)) continue;
        for (int64_t ti = 0; ti < kGroupTiles; ti++) score(g, ti, from, to);
        visit(g, from, to);
      }
    }
  }

  bool disjoint(int64_t g) const {
    for (int64_t ti = 0; ti < kGroupTiles; ti++)
      if (segment_test(head, s.rows[g * kGroupTiles + ti], *s.key_tile) != SegmentTest::disjoint) return false;
    return true;
  }

  /// Where |lse| is so large that its rounding, up to 2^-24 |lse|, shows in exp(logit - lse), as in rows that are masked by the
  /// most negative finite bias, the maximum and the sum are computed again.
  static constexpr float kFar = 65536;

  void normalise(int64_t i) const {
    const TileRows& rows = s.rows[i];
    f32v top[kTileVectors], total[kTileVectors]{};
    for (int v = 0; v < kTileVectors; v++) top[v] = splat(kInvisible);
    for (int64_t at = rows.keys.begin; at < rows.keys.end; at += config.backward_key_tile) {
      const int64_t count = std::min(config.backward_key_tile, rows.keys.end - at);
      set_keys(head, at, count, *s.key_tile);
      pack_keys(count);
      const bool adds = start_logits(rows, 0, count);
      for (int64_t p = 0; p < count; p += kTileRows) {
        Tile c;
        logits(c, i, p, adds);
#pragma GCC unroll 2
        for (int v = 0; v < kTileVectors; v++) {
          f32v most = top[v];
#pragma GCC unroll 16
          for (int r = 0; r < kTileRows; r++) most = vmax(most, c.at[r][v]);
          const f32v subtract = select(most == splat(kInvisible), f32v{}, most);
          total[v] *= softmax_exp<R>(top[v] - subtract);
#pragma GCC unroll 16
          for (int r = 0; r < kTileRows; r++) total[v] += softmax_exp<R>(c.at[r][v] - subtract);
          top[v] = most;
        }
      }
    }
    for (int v = 0; v < kTileVectors; v++) {
      float *shift = s.shift + i * kTileColumns + v * kLanes, *factor = s.factor + i * kTileColumns + v * kLanes;
      const f32v lse = load<f32v>(shift);
      const i32v far = (lse > splat(kFar)) | (lse < splat(-kFar));
      const i32v use = far & (lse < splat(-kInvisible));  // +inf marks rows that are left out
      store(shift, select(use, top[v], lse));
      store(factor, select(use, splat(1.0f) / total[v], splat(1.0f)));
    }
  }

  /// Rows that saw no key are left out like padding: nothing of them is read, so their gradients are zeros by selection.
  void start_group(int64_t g, int64_t first, int64_t end) const {
    KeySpan keys{std::numeric_limits<int64_t>::max(), 0};
    for (int64_t ti = 0; ti < kGroupTiles; ti++) {
      TileRows& rows = s.rows[g * kGroupTiles + ti];
      set_rows(
          head, first + ti * kTileColumns, end, [&](int64_t row) { return args.lse[head.query_index(row)] == kInvisible; }, rows);
      start_tile(g * kGroupTiles + ti);
      if (!rows.keys.empty()) keys = {std::min(keys.begin, rows.keys.begin), std::max(keys.end, rows.keys.end)};
    }
    for (int64_t ti = 0; ti < kGroupTiles; ti++) s.rows[g * kGroupTiles + ti].keys = keys;
    if (keys.empty()) return;
    const auto row_at = [&](const void* base, int64_t size) {
      return [&, base, size](int64_t r) {
        return live_row(g * kGroupTiles + r / kTileColumns, static_cast<int>(r % kTileColumns), base, size);
      };
    };
    pack_panels<Dot, T, kTileColumns>(row_at(args.q, desc.head_size), kGroupRows, desc.head_size, sizes.head_columns,
                                      group_panel(), query_columns(g));
    pack_panels<Dot, T, kTileColumns>(row_at(args.dout, desc.value_size), kGroupRows, desc.value_size, sizes.value_columns,
                                      group_panel(), dout_columns(g));
  }

  const T* live_row(int64_t i, int lane, const void* base, int64_t size) const {
    const TileRows& rows = s.rows[i];
    return rows.live[lane] ? static_cast<const T*>(base) + head.query_index(rows.first_row + lane) * size : nullptr;
  }

  void start_tile(int64_t i) const {
    TileRows& rows = s.rows[i];
    rows.far = false;
    std::fill_n(dq(i), sizes.head_rows * kTileColumns, 0.0f);
    const T *q[kTileColumns], *dout[kTileColumns];
    for (int lane = 0; lane < kTileColumns; lane++) {
      q[lane] = live_row(i, lane, args.q, desc.head_size);
      dout[lane] = live_row(i, lane, args.dout, desc.value_size);
      const T* out = live_row(i, lane, args.out, desc.value_size);
      float *shift = s.shift + i * kTileColumns + lane, *delta = s.delta + i * kTileColumns + lane;
      *shift = -kInvisible;  // makes every probability 0
      *delta = 0;
      if (out == nullptr) continue;
      const int64_t index = head.query_index(rows.first_row + lane);
      *shift = args.lse[index];
      rows.far = rows.far || std::fabs(*shift) > kFar;
      *delta = row_dot(dout[lane], out) - (args.dlse == nullptr ? 0.0f : args.dlse[index]);
    }
    pack_transposed<Dot>(q, desc.head_size, queries(i));
    pack_transposed<Dot>(dout, desc.value_size, douts(i));
  }

  float row_dot(const T* a, const T* b) const {
    f32v total{};
    int64_t e = 0;
    for (; e + kLanes <= desc.value_size; e += kLanes) total += load_f32(a + e) * load_f32(b + e);
    const int rest = static_cast<int>(desc.value_size - e);
    if (rest > 0) total += load_f32(a + e, rest) * load_f32(b + e, rest);
    return sum(total);
  }

  void pack_keys(int64_t count) const {
    const TileKeys& keys = *s.key_tile;
    const auto row_at = [&](const void* base, int64_t size) {
      return [&, base, size](int64_t j) -> const T* {
        return exists(head, keys, j) ? static_cast<const T*>(base) + head.key_index(keys.begin + j) * size : nullptr;
      };
    };
    pack_rows<Dot, T>(row_at(args.k, desc.head_size), count, desc.head_size, s.keys);
    pack_rows<Dot, T>(row_at(args.v, desc.value_size), count, desc.value_size, s.values);
    if constexpr (group != 1)
      pack_panels<Dot, T, kTileRows>(row_at(args.k, desc.head_size), count, desc.head_size, sizes.head_rows, key_column_panel(),
                                     s.key_columns);
  }

  /// Fills bias and mask of a row tile, and says whether there are any.
  bool start_logits(const TileRows& rows, int64_t begin, int64_t end) const {
    if (head.in.bias == nullptr && head.in.mask == nullptr) return false;
    set_added(head, rows, *s.key_tile, begin, end, s.added);
    return true;
  }

  JAXATOR_INLINE void logits(Tile& c, int64_t i, int64_t p, bool adds) const {
    const TileRows& rows = s.rows[i];
    const SegmentTest segments =
        segment_test(head, rows, *s.key_tile) == SegmentTest::none ? SegmentTest::none : SegmentTest::lanes;
    clear(c);
    dot_rows<Dot>(c, sizes.head_words, s.keys + p / kTileRows * key_panel(), queries(i));
    finish_logits(c, desc.scale, rows, *s.key_tile, p, adds ? s.added : nullptr, segments);
  }

  /// P and dS of one row tile.
  void score(int64_t g, int64_t ti, int64_t begin, int64_t end) const {
    const int64_t i = g * kGroupTiles + ti;
    const bool adds = start_logits(s.rows[i], begin, end), far = s.rows[i].far;
    for (int64_t p = begin; p < end; p += kTileRows) {
      Tile c;
      logits(c, i, p, adds);
      for_tile(
          [&](int r, int v) { c.at[r][v] = softmax_exp<R>(c.at[r][v] - load<f32v>(s.shift + i * kTileColumns + v * kLanes)); });
      if (far) for_tile([&](int r, int v) { c.at[r][v] *= load<f32v>(s.factor + i * kTileColumns + v * kLanes); });
      store_tile(c, s.probabilities);
      store_rows(c, ti, p, s.p_rows);

      clear(c);
      dot_rows<Dot>(c, sizes.value_words, s.values + p / kTileRows * value_panel(), douts(i));
      for_tile([&](int r, int v) {
        const f32v probability = load<f32v>(s.probabilities + r * kTileColumns + v * kLanes);
        const f32v gradient = probability * (c.at[r][v] - load<f32v>(s.delta + i * kTileColumns + v * kLanes));
        c.at[r][v] = select(probability == f32v{}, f32v{}, gradient);  // 0 * inf is not a gradient
      });
      store_rows(c, ti, p, s.ds_rows);
      store_columns(c, ti, p);
      if (desc.bias_gradient) store_tile(c, ds(ti) + p * kTileColumns);
    }
  }

  /// As the left operand of a contraction over the group's query rows.
  void store_rows(const Tile& c, int64_t ti, int64_t p, uint32_t* form) const {
    uint32_t* to = form + p * kGroupWords + ti * (kTileColumns / group) * kTileRows;
    if constexpr (group == 1) {
      for_tile([&](int r, int v) { store(to + (v * kTileRows + r) * kLanes, c.at[r][v]); });
    } else {
#pragma GCC unroll 16
      for (int r = 0; r < kTileRows; r++) store(to + r * kLanes, Dot::join(c.at[r][0], c.at[r][1]));
    }
  }

  /// As the right operand of a contraction over keys.
  void store_columns(const Tile& c, int64_t ti, int64_t p) const {
    uint32_t* to = ds_columns(ti) + p / group * kTileColumns;
#pragma GCC unroll 8
    for (int r = 0; r < kTileRows; r += 2)
#pragma GCC unroll 2
      for (int v = 0; v < kTileVectors; v++)
        Dot::store_neighbours(to + r / group * kTileColumns + v * kLanes, c.at[r][v], c.at[r + 1][v]);
  }

  // ---- products three to five -----------------------------------------------------------------------------------------
  /// dk and dv are the sums from key `first_key` on.
  void accumulate(int64_t g, int64_t begin, int64_t end, int64_t first_key, float* dk, float* dv) const {
    const int64_t first = s.key_tile->begin + begin - first_key;
    add_products(s.p_rows, dout_columns(g), begin, end, dv + first * sizes.value_columns, sizes.value_columns);
    add_products(s.ds_rows, query_columns(g), begin, end, dk + first * sizes.head_columns, sizes.head_columns);
    for (int64_t ti = 0; ti < kGroupTiles; ti++) {
      const uint32_t* columns = ds_columns(ti) + begin / group * kTileColumns;
      float* to = dq(g * kGroupTiles + ti);
      for (int64_t h = 0; h < desc.head_size; h += kTileRows, to += kTileFloats) {
        Tile c;
        load_tile(c, to);
        add_keys(c, h, begin, end, columns);
        store_tile(c, to);
      }
    }
  }

  /// Keys [begin, end) times all columns of q or dout, 64 query rows deep. A panel of columns stays in the first-level cache
  /// while the keys pass: with keys in the outer loop all panels went through it for each 8 keys, and these two products took
  /// 7 % longer on Zen 5. The sums are then read in steps that hardware does not prefetch.
  void add_products(const uint32_t* a, const uint32_t* b, int64_t begin, int64_t end, float* sums, int64_t columns) const {
    for (int64_t e = 0; e < columns; e += kTileColumns, b += group_panel(), sums += kTileFloats) {
      float* to = sums;
      for (int64_t p = begin; p < end; p += kTileRows, to += kTileRows * columns) {
        Tile c;
        load_tile(c, to);
        prefetch_tile(p + kTileRows < end ? to + kTileRows * columns : sums + kTileFloats);
        dot_rows<Dot>(c, kGroupWords, a + p * kGroupWords, b);
        store_tile(c, to);
      }
    }
  }

  /// c += K^T dS^T: rows [h, h + kTileRows) of dq^T. Keys packed by rows serve where a word is one element.
  JAXATOR_INLINE void add_keys(Tile& c, int64_t h, int64_t begin, int64_t end, const uint32_t* columns) const {
    if constexpr (group == 1) {
      const uint32_t* keys = s.keys + begin / kTileRows * key_panel() + h / kLanes * kTileRows * kLanes + h % kLanes;
      dot_across<Dot>(c, end - begin, keys, key_panel(), columns);
    } else {
      const uint32_t* keys = s.key_columns + h / kTileRows * key_column_panel() + begin / group * kTileRows;
      dot_columns<Dot>(c, (end - begin) / group, keys, columns);
    }
  }

  void finish_rows(int64_t first, int64_t end) const {
    const f32v scale = splat(desc.scale);
    for (int64_t i = 0; i < ceil_div(end - first, kTileColumns); i++) {
      const TileRows& rows = s.rows[i];
      i32v live[kTileVectors];
      for (int lane = 0; lane < kTileColumns; lane++) live[lane / kLanes][lane % kLanes] = rows.live[lane] ? -1 : 0;
      unpack_transposed<T>(
          dq(i), desc.head_size,
          [&](int lane) {
            return lane < rows.rows ? static_cast<T*>(args.dq) + head.query_index(rows.first_row + lane) * desc.head_size
                                    : nullptr;
          },
          [&](int v, f32v x) { return select(live[v], x * scale, f32v{}); });
    }
  }

  // ---- bias gradient --------------------------------------------------------------------------------------------------
  /// Adds dS of a group to dbias, lanes and keys in a fixed order.
  void add_bias_gradient(int64_t g, int64_t begin, int64_t end) const {
    const int64_t valid = std::min(end, s.key_tile->count);
    for (int64_t ti = 0; ti < kGroupTiles; ti++) {
      const TileRows& rows = s.rows[g * kGroupTiles + ti];
      if (!rows.any_live) continue;
      if (desc.bias_shape[3] == 1)
        add_row_totals(rows, ds(ti), begin, valid);
      else if (rows.same_bias)
        add_lane_totals(rows, ds(ti), begin, valid);
      else
        add_lanes(rows, ds(ti), begin, valid);
    }
  }

  static int first_live(const TileRows& rows) {
    int lane = 0;
    while (!rows.live[lane]) lane++;
    return lane;
  }

  void add_row_totals(const TileRows& rows, const float* tile, int64_t begin, int64_t end) const {
    for (int v = 0; v < kTileVectors; v++) {
      f32v total{};
      for (int64_t p = begin; p < end; p++) total += load<f32v>(tile + p * kTileColumns + v * kLanes);
      for (int i = 0; i < kLanes; i++)
        if (rows.live[v * kLanes + i]) args.dbias[rows.bias[v * kLanes + i]] += total[i];
    }
  }

  void add_lane_totals(const TileRows& rows, const float* tile, int64_t begin, int64_t end) const {
    float* to = args.dbias + rows.bias[first_live(rows)] + s.key_tile->begin;
    for (int64_t p = begin; p < end; p++)
      to[p] += sum(load<f32v>(tile + p * kTileColumns) + load<f32v>(tile + p * kTileColumns + kLanes));
  }

  void add_lanes(const TileRows& rows, const float* tile, int64_t begin, int64_t end) const {
    for (int v = 0; v < kTileVectors; v++)
      for (int64_t p = begin; p < end; p += kLanes) {
        u32v block[kLanes];
        const int n = static_cast<int>(std::min<int64_t>(kLanes, end - p));
#pragma GCC unroll 16
        for (int i = 0; i < kLanes; i++) block[i] = i < n ? load<u32v>(tile + (p + i) * kTileColumns + v * kLanes) : u32v{};
        transpose(block);
        for (int i = 0; i < kLanes; i++) {
          if (!rows.live[v * kLanes + i]) continue;
          float* to = args.dbias + rows.bias[v * kLanes + i] + s.key_tile->begin + p;
          if (n == kLanes)
            store_f32(to, load_f32(to) + (f32v)block[i]);
          else
            store_f32(to, load_f32(to, n) + (f32v)block[i], n);
        }
      }
  }
};

}  // namespace jaxator::JAXATOR_ISA
