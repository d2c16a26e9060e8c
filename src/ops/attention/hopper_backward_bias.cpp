/// @file
/// Gradient of attention's bias. A block owns a tile of the bias, 64 queries by 128 keys, and walks all tiles of pairs that share
/// it: batch entries, heads, queries and keys along which the bias broadcasts, in one fixed order. P and dS are computed once
/// more, two of the backward pass's five products, so no array of [B, N, T, S] exists and no sum depends on timing.
#include "src/ops/attention/hopper_backward_pairs.h"
#include "src/tile/hopper/bulk.h"
#include "src/tile/hopper/math.h"
#include "src/tile/hopper/reduce.h"
#include "src/tile/hopper/tma.h"
#include "src/tile/hopper/wgmma_attention.h"

namespace jaxator::hopper::attention {

inline constexpr int kTileQueries = kBiasQueries, kTileKeys = kBackwardKeys, kStages = 2;

template <int kHead> struct BiasLayout {
  static constexpr u32 kHalfKeys = kTileKeys * 128, kHalfQueries = kTileQueries * 128, kKeyTile = kTileKeys * kHead * 2,
                       kQueryTile = kTileQueries * kHead * 2, kRowValues = kTileQueries * 4;
  static constexpr u32 kStage = 2 * kKeyTile + 2 * kQueryTile, kRows = kStages * kStage, kBand = kRows + kStages * 2 * kRowValues,
                       kSums = kBand + kStages * kBandBytes, kIds = kSums + 8 * kTileQueries * 4,
                       kBarriers = kIds + kStages * (kRowValues + kTileKeys * 4);
  static_assert(kBarriers + kStages * 16 <= bias_shared_bytes(kHead) && bias_shared_bytes(kHead) <= 232448);

  u32 start;
  JAXATOR_DEVICE u32 key(u32 stage) const { return start + stage * kStage; }
  JAXATOR_DEVICE u32 value(u32 stage) const { return key(stage) + kKeyTile; }
  JAXATOR_DEVICE u32 query(u32 stage) const { return key(stage) + 2 * kKeyTile; }
  JAXATOR_DEVICE u32 dout(u32 stage) const { return query(stage) + kQueryTile; }
  JAXATOR_DEVICE u32 lse(u32 stage) const { return start + kRows + stage * 2 * kRowValues; }
  JAXATOR_DEVICE u32 delta(u32 stage) const { return lse(stage) + kRowValues; }
  JAXATOR_DEVICE u32 band(u32 stage) const { return start + kBand + stage * kBandBytes; }
  JAXATOR_DEVICE u32 query_ids(u32 stage) const { return start + kIds + stage * (kRowValues + kTileKeys * 4); }
  JAXATOR_DEVICE u32 key_ids(u32 stage) const { return query_ids(stage) + kRowValues; }
  JAXATOR_DEVICE u32 sums() const { return start + kSums; }  ///< [warp 8][query 64] or [key 128] floats
  JAXATOR_DEVICE u32 ready(u32 stage) const { return start + kBarriers + stage * 16; }
  JAXATOR_DEVICE u32 free(u32 stage) const { return ready(stage) + 8; }
};

/// Along one dimension: the indices that a block walks.
struct Span {
  int begin, end;
};

/// Where the bias has a size of 1 (stride 0) all of the dimension, else one index, taken from `tile`.
JAXATOR_DEVICE Span span_of(u32& tile, i64 stride, int count) {
  if (stride == 0) return {0, count};
  const int index = tile % count;
  tile /= count;
  return {index, index + 1};
}

struct BiasTile {
  Span batches, heads, queries, keys;  // the last two in blocks
};

JAXATOR_DEVICE BiasTile bias_tile(const BackwardParams& p, u32 tile) {
  const PairArray& bias = p.see.bias;
  BiasTile t;
  t.keys = span_of(tile, bias.key, p.key_blocks);
  t.queries = span_of(tile, bias.query, (p.see.query_length + kTileQueries - 1) / kTileQueries);
  t.heads = span_of(tile, bias.head, p.heads);
  t.batches = span_of(tile, bias.batch, p.batch);
  return t;
}

/// visit(batch, limits, head, query block, key block) for the tiles with a visible pair.
template <class Visit> JAXATOR_DEVICE void each_tile(const BackwardParams& p, const BiasTile& t, Visit&& visit) {
#pragma unroll 1
  for (int batch = t.batches.begin; batch < t.batches.end; batch++) {
    const Limits limits = limits_of(p.see, batch);
#pragma unroll 1
    for (int head = t.heads.begin; head < t.heads.end; head++)
#pragma unroll 1
      for (int query = t.queries.begin; query < t.queries.end; query++) {
        const Interval seen = key_blocks_of<kTileQueries>(p, limits, query);
#pragma unroll 1
        for (int key = larger(t.keys.begin, seen.begin); key < smaller(t.keys.end, seen.end); key++)
          visit(batch, limits, head, query, key);
      }
  }
}

template <int kHead> struct BiasLoader {
  using Layout = BiasLayout<kHead>;
  const BackwardParams& p;
  const TensorMap &q, &k, &v, &dout;
  Layout shared;
  RingPosition<kStages> ring{0, 1};

  JAXATOR_DEVICE void block(int batch, const Limits& limits, int head, int query, int key) {
    const u32 stage = ring.stage, ready = shared.ready(stage);
    const int kv_head = head / (p.heads / p.kv_heads), row = query * kTileQueries, column = key * kTileKeys;
    barrier_wait(shared.free(stage), ring.parity);
    ring.advance();
    store_band<kTileQueries>(shared.band(stage), p, limits, column, row);
    store_shared_int(shared.band(stage) + kBandBatch, batch), store_shared_int(shared.band(stage) + kBandHead, head);
    const bool with_ids = p.query_ids != nullptr;
    barrier_expect(ready, Layout::kStage + (with_ids ? 3 : 2) * Layout::kRowValues);
#pragma unroll
    for (int i = 0; i < kHead / 64; i++) {
      tma_load(shared.key(stage) + i * Layout::kHalfKeys, k, ready, 64 * i, kv_head, column, batch);
      tma_load(shared.value(stage) + i * Layout::kHalfKeys, v, ready, 64 * i, kv_head, column, batch);
      tma_load(shared.query(stage) + i * Layout::kHalfQueries, q, ready, 64 * i, head, row, batch);
      tma_load(shared.dout(stage) + i * Layout::kHalfQueries, dout, ready, 64 * i, head, row, batch);
    }
    const i64 values = (static_cast<i64>(batch) * p.heads + head) * p.query_blocks * backward_queries(kHead) + row;
    bulk_load(shared.lse(stage), p.lse2 + values, Layout::kRowValues, ready);
    bulk_load(shared.delta(stage), p.delta + values, Layout::kRowValues, ready);
    const i64 ids = static_cast<i64>(batch) * p.query_blocks * backward_queries(kHead) + row;
    if (with_ids) bulk_load(shared.query_ids(stage), p.query_ids + ids, Layout::kRowValues, ready);
  }

  JAXATOR_DEVICE void run() {
    each_tile(p, bias_tile(p, block_x()),
              [&](int batch, const Limits& limits, int head, int query, int key)
                  __attribute__((always_inline)) { block(batch, limits, head, query, key); });
  }
};

/// One of two warpgroups, with 64 of the tile's keys as rows.
template <class T, int kHead> struct BiasConsumer {
  using Layout = BiasLayout<kHead>;
  const BackwardParams& p;
  Layout shared;
  u32 warpgroup, thread = thread_x() % 128, lane = thread_x() % 32;
  float sum[32];
  RingPosition<kStages> ring;

  JAXATOR_DEVICE BiasConsumer(const BackwardParams& parameters, Layout layout, u32 which)
      : p(parameters), shared(layout), warpgroup(which) {
#pragma unroll
    for (int i = 0; i < 32; i++) sum[i] = 0;
  }

  /// Of this warpgroup's keys; their array is not padded to tiles.
  JAXATOR_DEVICE void load_key_ids(u32 stage) const {
    const u32 row = warpgroup * 64 + thread % 64;
    const int key = load_shared_int(shared.band(stage) + kBandKey) + row,
              batch = load_shared_int(shared.band(stage) + kBandBatch);
    const bool real = key < p.see.key_length;
    const int id = real ? p.see.key_segments[static_cast<i64>(batch) * p.see.key_length + key] : -1;
    store_shared_int(shared.key_ids(stage) + row * 4, id);
    named_sync<128>(2 + warpgroup);
  }

  JAXATOR_DEVICE void add_tile() {
    const u32 stage = ring.stage;
    float s[32], dp[32];
    barrier_wait(shared.ready(stage), ring.parity);
    ring.advance();
    if (p.query_ids != nullptr) load_key_ids(stage);
    multiply<T, kHead / 16>(s, low_descriptor(shared.key(stage) + warpgroup * 8192), AlongRows{Layout::kHalfKeys},
                            low_descriptor(shared.query(stage)), AlongRows{Layout::kHalfQueries});
    multiply<T, kHead / 16>(dp, low_descriptor(shared.value(stage) + warpgroup * 8192), AlongRows{Layout::kHalfKeys},
                            low_descriptor(shared.dout(stage)), AlongRows{Layout::kHalfQueries});
    wgmma_wait_for<0>(s);
    wgmma_wait_for<0>(dp);
    PairLogits<kTileQueries>{p, shared.band(stage), warpgroup * 64, s}.run(shared.query_ids(stage), shared.key_ids(stage));
#pragma unroll
    for (int i = 0; i < 32; i++) {
      const u32 query = i / 4 * 8 + lane % 4 * 2 + i % 2;
      const float lse = load_shared(shared.lse(stage) + query * 4), delta = load_shared(shared.delta(stage) + query * 4);
      // Padding and dead rows may hold NaN: 0 by selection.
      const bool seen = s[i] != -__builtin_inff() && lse != __builtin_inff();
      sum[i] += seen ? exp2_approx(s[i] - lse) * (dp[i] - delta) : 0.0f;
    }
    warp_sync();
    if (lane == 0) barrier_arrive(shared.free(stage));
  }

  JAXATOR_DEVICE void store(const BiasTile& t, int query, int key, float value) const {
    const PairArray& bias = p.see.bias;
    if ((bias.query != 0 && query >= p.see.query_length) || (bias.key != 0 && key >= p.see.key_length)) return;
    p.dbias[t.batches.begin * bias.batch + t.heads.begin * bias.head + query * bias.query + key * bias.key] = value;
  }

  JAXATOR_DEVICE int key(int half) const { return warpgroup * 64 + thread / 32 * 16 + lane / 4 + 8 * half; }

  /// One value for each key, or one for all.
  JAXATOR_DEVICE void store_key_sums(const BiasTile& t) const {
#pragma unroll
    for (int half = 0; half < 2; half++) {
      float total = 0;
#pragma unroll
      for (int i = 0; i < 8; i++) total += sum[4 * i + 2 * half] + sum[4 * i + 2 * half + 1];
      total += shuffle_xor(total, 1);
      total += shuffle_xor(total, 2);
      if (p.see.bias.key == 0)
        store_shared(shared.sums() + key(half) * 4, total);
      else if (lane % 4 == 0)
        store(t, 0, t.keys.begin * kTileKeys + key(half), total);
    }
    if (p.see.bias.key != 0) return;
    named_sync<256>(1);
    if (warpgroup != 0 || thread >= 32) return;
    float all[1] = {0};
#pragma unroll
    for (int i = 0; i < 4; i++) all[0] += load_shared(shared.sums() + (lane + 32 * i) * 4);
    warp_sum(all);
    if (lane == 0) store(t, 0, 0, all[0]);
  }

  /// One value for each query.
  JAXATOR_DEVICE void store_query_sums(const BiasTile& t) const {
    const u32 warp = warpgroup * 4 + thread / 32;
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
      for (int e = 0; e < 2; e++) {
        float total = sum[4 * i + e] + sum[4 * i + 2 + e];
#pragma unroll
        for (int mask = 4; mask < 32; mask *= 2) total += shuffle_xor(total, mask);
        if (lane / 4 == 0) store_shared(shared.sums() + (warp * kTileQueries + i * 8 + lane % 4 * 2 + e) * 4, total);
      }
    named_sync<256>(1);
    if (warpgroup != 0 || thread >= kTileQueries) return;
    float total = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) total += load_shared(shared.sums() + (i * kTileQueries + thread) * 4);
    store(t, t.queries.begin * kTileQueries + thread, 0, total);
  }

  JAXATOR_DEVICE void store_sums(const BiasTile& t) const {
    if (p.see.bias.query == 0) return store_key_sums(t);
    if (p.see.bias.key == 0) return store_query_sums(t);
#pragma unroll
    for (int i = 0; i < 32; i++)
      store(t, t.queries.begin * kTileQueries + i / 4 * 8 + lane % 4 * 2 + i % 2, t.keys.begin * kTileKeys + key(i / 2 % 2),
            sum[i]);
  }

  JAXATOR_DEVICE void run() {
    const BiasTile t = bias_tile(p, block_x());
    each_tile(p, t, [&](int, const Limits&, int, int, int) __attribute__((always_inline)) { add_tile(); });
    store_sums(t);
  }
};

template <class T, int kHead>
JAXATOR_DEVICE void bias_gradient(const BackwardParams& p, const TensorMap& q, const TensorMap& k, const TensorMap& v,
                                  const TensorMap& dout) {
  const BiasLayout<kHead> shared{shared_base()};
  if (thread_x() == 0) {
    for (u32 i = 0; i < kStages; i++) barrier_init(shared.ready(i), 1), barrier_init(shared.free(i), 8);
    fence_barrier_init();
  }
  block_sync();
  if (thread_x() == 0) BiasLoader<kHead>{p, q, k, v, dout, shared}.run();
  if (thread_x() >= 128) BiasConsumer<T, kHead>(p, shared, thread_x() / 128 - 1).run();
}

}  // namespace jaxator::hopper::attention

using jaxator::hopper::Bf16, jaxator::hopper::F16, jaxator::hopper::TensorMap;
using jaxator::hopper::attention::BackwardParams;

#define JAXATOR_ENTRY(type, Element, head)                                                                                     \
  JAXATOR_KERNEL(384, 1)                                                                                                       \
  attention_backward_bias_##head##_##type(const JAXATOR_GRID_CONSTANT TensorMap q, const JAXATOR_GRID_CONSTANT TensorMap k,    \
                                          const JAXATOR_GRID_CONSTANT TensorMap v, const JAXATOR_GRID_CONSTANT TensorMap dout, \
                                          const JAXATOR_GRID_CONSTANT BackwardParams p) {                                      \
    jaxator::hopper::attention::bias_gradient<Element, head>(p, q, k, v, dout);                                                \
  }
JAXATOR_ENTRY(bf16, Bf16, 64)
JAXATOR_ENTRY(bf16, Bf16, 128)
JAXATOR_ENTRY(f16, F16, 64)
JAXATOR_ENTRY(f16, F16, 128)
