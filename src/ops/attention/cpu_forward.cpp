/// @file
/// Flash attention forward. Queries are in the lanes: S^T = K Q^T, O^T = V^T P^T, so that maxima, sums and rescales are
/// vertical vector operations and the exponentials leave P^T in place as the next product's right operand. A task is a run of
/// query rows of one key/value head, all heads of the group together, so that a packed tile of keys is used 8 times.
#include <cmath>

#include "src/ops/attention/cpu.h"
#include "src/ops/attention/route.h"
#include "src/ops/attention/tile.h"
#include "src/tile/cpu/pack.h"

namespace jaxator::JAXATOR_ISA {
namespace {

template <class R> struct ForwardTask {
  using Dot = typename R::Dot;
  using T = typename R::T;
  static constexpr int64_t group = Dot::group;

  const AttentionDesc& desc;
  const AttentionConfig& config;
  const AttentionForwardArgs& args;
  const HeadGroup head;
  const PackedSizes sizes;
  const ForwardScratch s;

  uint32_t* queries(int64_t i) const { return s.queries + i * sizes.head_words * kTileColumns; }
  float* out(int64_t i) const { return s.out + i * sizes.value_rows * kTileColumns; }
  int64_t key_panel() const { return round_up(sizes.head_words, kLanes) * kTileRows; }
  int64_t value_panel() const { return panel_words(config.forward_key_tile / group, kTileRows); }

  void run(int64_t first_row) const {
    KeySpan keys{std::numeric_limits<int64_t>::max(), 0};
    const int64_t end = std::min(rows_of(desc), first_row + config.forward_rows);
    const int64_t tiles = ceil_div(end - first_row, kTileColumns);
    for (int64_t i = 0; i < tiles; i++) {
      start(i, first_row + i * kTileColumns, end);
      if (s.rows[i].keys.empty()) continue;
      keys = {std::min(keys.begin, s.rows[i].keys.begin), std::max(keys.end, s.rows[i].keys.end)};
    }
    for (int64_t at = keys.begin; at < keys.end; at += config.forward_key_tile) {
      const int64_t count = std::min(config.forward_key_tile, keys.end - at);
      set_keys(head, at, count, *s.key_tile);
      pack(count);
      for (int64_t i = 0; i < tiles; i++) visit(i, count);
    }
    for (int64_t i = 0; i < tiles; i++) finish(i);
  }

  void start(int64_t i, int64_t first, int64_t end) const {
    TileRows& rows = s.rows[i];
    set_rows(head, first, end, [](int64_t) { return false; }, rows);
    const T* row[kTileColumns];
    for (int lane = 0; lane < kTileColumns; lane++)
      row[lane] = rows.live[lane] ? static_cast<const T*>(args.q) + head.query_index(first + lane) * desc.head_size : nullptr;
    pack_transposed<Dot>(row, desc.head_size, queries(i));
    std::fill_n(out(i), sizes.value_rows * kTileColumns, 0.0f);
    std::fill_n(s.max + i * kTileColumns, kTileColumns, kInvisible);
    std::fill_n(s.sum + i * kTileColumns, kTileColumns, 0.0f);
  }

  void pack(int64_t count) const {
    const TileKeys& keys = *s.key_tile;
    const auto row_at = [&](const void* base, int64_t size) {
      return [&, base, size](int64_t j) -> const T* {
        return exists(head, keys, j) ? static_cast<const T*>(base) + head.key_index(keys.begin + j) * size : nullptr;
      };
    };
    pack_rows<Dot, T>(row_at(args.k, desc.head_size), count, desc.head_size, s.keys);
    pack_panels<Dot, T, kTileRows>(row_at(args.v, desc.value_size), count, desc.value_size, sizes.value_rows, value_panel(),
                                   s.values);
  }

  /// One row tile with the packed keys.
  void visit(int64_t i, int64_t count) const {
    const TileRows& rows = s.rows[i];
    const int64_t begin = std::max(rows.keys.begin - s.key_tile->begin, int64_t{0});
    const int64_t end = std::min(rows.keys.end - s.key_tile->begin, count);
    if (begin >= end) return;
    const SegmentTest segments = segment_test(head, rows, *s.key_tile);
    if (segments == SegmentTest::disjoint) return;
    const bool adds = head.in.bias != nullptr || head.in.mask != nullptr;
    if (adds) set_added(head, rows, *s.key_tile, begin, end, s.added);

    f32v top[kTileVectors], rescale[kTileVectors];
    for (int v = 0; v < kTileVectors; v++) top[v] = load<f32v>(s.max + i * kTileColumns + v * kLanes);
    logits(i, begin, end, adds ? s.added : nullptr, segments, top);
    exponentials(i, begin, end, top, rescale);
    values(i, begin, end, rescale);
  }

  void logits(int64_t i, int64_t begin, int64_t end, const float* added, SegmentTest segments, f32v (&top)[kTileVectors]) const {
    for (int64_t p = begin; p < end; p += kTileRows) {
      Tile c;
      clear(c);
      dot_rows<Dot>(c, sizes.head_words, s.keys + p / kTileRows * key_panel(), queries(i));
      finish_logits(c, desc.scale, s.rows[i], *s.key_tile, p, added, segments);
      for_tile([&](int r, int v) { top[v] = vmax(top[v], c.at[r][v]); });
      store_tile(c, s.logits + p * kTileColumns);
    }
  }

  /// exp(logit - max) in place. Logits stay in natural units and the maximum is subtracted before log2(e) multiplies, so that
  /// the most negative finite logits (used as masks) do not overflow to -inf.
  void exponentials(int64_t i, int64_t begin, int64_t end, const f32v (&top)[kTileVectors], f32v (&rescale)[kTileVectors]) const {
    f32v subtract[kTileVectors], sums[2][kTileVectors]{};
    for (int v = 0; v < kTileVectors; v++) {
      float* max = s.max + i * kTileColumns + v * kLanes;
      subtract[v] = select(top[v] == splat(kInvisible), f32v{}, top[v]);  // -inf - -inf would be NaN
      rescale[v] = softmax_exp<R>(load<f32v>(max) - subtract[v]);
      store(max, top[v]);
    }
    uint32_t* words = reinterpret_cast<uint32_t*>(s.logits);
    for (int64_t p = begin; p < end; p += 2)
      for (int v = 0; v < kTileVectors; v++) {
        const float* logit = s.logits + p * kTileColumns + v * kLanes;
        const f32v a = softmax_exp<R>(load<f32v>(logit) - subtract[v]);
        const f32v b = softmax_exp<R>(load<f32v>(logit + kTileColumns) - subtract[v]);
        sums[0][v] += a;
        sums[1][v] += b;
        Dot::store_neighbours(words + p / group * kTileColumns + v * kLanes, a, b);
      }
    for (int v = 0; v < kTileVectors; v++) {
      float* sum = s.sum + i * kTileColumns + v * kLanes;
      store(sum, load<f32v>(sum) * rescale[v] + (sums[0][v] + sums[1][v]));
    }
  }

  void values(int64_t i, int64_t begin, int64_t end, const f32v (&rescale)[kTileVectors]) const {
    const uint32_t* words = reinterpret_cast<const uint32_t*>(s.logits) + begin / group * kTileColumns;
    const uint32_t* values = s.values + begin / group * kTileRows;
    float* o = out(i);
    for (int64_t d = 0; d < desc.value_size; d += kTileRows, values += value_panel(), o += kTileRows * kTileColumns) {
      Tile c;
      load_tile(c, o);
      for_tile([&](int r, int v) { c.at[r][v] *= rescale[v]; });
      dot_columns<Dot>(c, (end - begin) / group, values, words);
      store_tile(c, o);
    }
  }

  /// Divides by the sum and writes out and lse; rows without a visible key have sum 0 and are selected to 0 and -inf.
  void finish(int64_t i) const {
    const TileRows& rows = s.rows[i];
    f32v inverse[kTileVectors];
    i32v none[kTileVectors];
    for (int v = 0; v < kTileVectors; v++) {
      const f32v sum = load<f32v>(s.sum + i * kTileColumns + v * kLanes);
      i32v live;
      for (int lane = 0; lane < kLanes; lane++) live[lane] = rows.live[v * kLanes + lane] ? -1 : 0;
      none[v] = (sum == f32v{}) | ~live;
      inverse[v] = splat(1.0f) / sum;
    }
    unpack_transposed<T>(
        out(i), desc.value_size,
        [&](int lane) {
          return lane < rows.rows ? static_cast<T*>(args.out) + head.query_index(rows.first_row + lane) * desc.value_size
                                  : nullptr;
        },
        [&](int v, f32v x) { return select(none[v], f32v{}, x * inverse[v]); });
    for (int lane = 0; lane < rows.rows; lane++) {
      const bool empty = none[lane / kLanes][lane % kLanes] != 0;
      const float sum = s.sum[i * kTileColumns + lane];
      args.lse[head.query_index(rows.first_row + lane)] = empty ? kInvisible : s.max[i * kTileColumns + lane] + std::log(sum);
    }
  }
};

}  // namespace

void attention_forward(const AttentionDesc& desc, const AttentionConfig& config, const AttentionForwardArgs& args, int64_t slots,
                       Executor& executor) {
  with_route(desc, config, [&](auto route) {
    const Operands operands = operands_of(desc, args);
    const int64_t pairs = desc.batch * desc.kv_heads, runs = ceil_div(rows_of(desc), config.forward_rows);
    const int64_t slot_bytes = forward_slot_bytes(desc, config);
    auto body = [&](int64_t task, int64_t slot) {
      Carver carver(static_cast<char*>(args.scratch) + slot * slot_bytes);
      const ForwardTask<decltype(route)> work{desc,
                                              config,
                                              args,
                                              HeadGroup(desc, operands, task % pairs),
                                              PackedSizes(desc, config),
                                              carve_forward(carver, desc, config)};
      work.run((runs - 1 - task / pairs) * config.forward_rows);  // under causal the last rows have the most keys
    };
    executor.parallel_for(pairs * runs, slots, body);
  });
}

}  // namespace jaxator::JAXATOR_ISA
