/// @file
/// The gradient of the bias: dS, summed over the dimensions along which the bias has one element. A wave has a tile of the bias
/// of 32 queries by 32 keys, computes P and dS of every pair that adds to it, and writes it once: the same bits each time.
/// Fragments come from global memory as they are needed, since a tile is used once; P and dS cost four of the backward pass's
/// products.
#include "src/ops/attention/cdna_pairs.h"

namespace jaxator::cdna::attention {
namespace {

inline constexpr int kTile = 32;

/// Tiles, or heads, that add to one place: all of them where the bias has one element, else one.
struct Part {
  int begin, end;
  JAXATOR_DEVICE Part(bool whole, int count, int one) : begin(whole ? 0 : one), end(whole ? count : one + 1) {}
};

template <int kHead, class T> class BiasGradient {
 public:
  static constexpr int kSteps = kHead / 16;

  JAXATOR_DEVICE explicit BiasGradient(const BackwardParams& p) : p_(p), bias_(p.see.bias), lane_(thread_x() % kWave) {}

  JAXATOR_DEVICE void run() {
    const int query_tiles = (p_.see.query_length + kTile - 1) / kTile, key_tiles = (p_.see.key_length + kTile - 1) / kTile;
    i64 at = i64{block_x()} * (threads_x() / kWave) + uniform(thread_x() / kWave);
    const auto one_of = [&](bool whole, int count) {
      const int n = whole ? 1 : count, index = uniform(static_cast<int>(at % n));
      at /= n;
      return Part(whole, count, index);
    };
    const Part keys = one_of(bias_.key == 0, key_tiles), queries = one_of(bias_.query == 0, query_tiles);
    const Part heads = one_of(bias_.head == 0, p_.heads), batches = one_of(bias_.batch == 0, p_.batch);
    if (at > 0) return;  // of the last block
    for (int batch = batches.begin; batch < batches.end; batch++)
      for (int head = heads.begin; head < heads.end; head++)
        for (int query = queries.begin; query < queries.end; query++)
          for (int key = keys.begin; key < keys.end; key++) add_tile(batch, head, query * kTile, key * kTile);
    bias_ = argument<BackwardParams>().see.bias;
    sum_over_broadcasts();
    store(batches.begin, heads.begin, queries.begin * kTile, keys.begin * kTile);
  }

 private:
  JAXATOR_DEVICE u32 column() const { return lane_ % 32; }
  JAXATOR_DEVICE u32 half() const { return lane_ / 32; }

  /// first second^T over the columns of a head.
  JAXATOR_DEVICE Acc product(const Rows& first, int first_row, int first_end, const Rows& second, int second_row,
                             int second_end) const {
    const Buffer a = first.from(first_row, smaller(first_end - first_row, kTile));
    const Buffer b = second.from(second_row, smaller(second_end - second_row, kTile));
    Acc x = {};
#pragma unroll
    for (u32 step = 0; step < kSteps; step++) {
      const u32 chunk = 2 * step + half();
      x = multiply_add<32, T>(a.load<Vector>(first.offset(column(), chunk)), b.load<Vector>(second.offset(column(), chunk)), x);
    }
    return x;
  }

  /// K, V and Q, dO of a tile's rows, and their products.
  JAXATOR_DEVICE void multiply(Acc& s, Acc& dp, const Limits& limits, int batch, int head, int first_query, int first_key) const {
    const BackwardParams p = argument<BackwardParams>();
    const u32 key_head = static_cast<u32>(head) / (static_cast<u32>(p.heads) / static_cast<u32>(p.kv_heads));
    const auto query_rows = [&](const void JAXATOR_GLOBAL* array, int size) {
      return Rows(array, batch, p.see.query_length, p.heads, head, size);
    };
    const auto key_rows = [&](const void JAXATOR_GLOBAL* array, int size) {
      return Rows(array, batch, p.see.key_length, p.kv_heads, key_head, size);
    };
    s = product(key_rows(p.k, p.head_size), first_key, limits.keys, query_rows(p.q, p.head_size), first_query, limits.queries);
    order();
    dp = product(key_rows(p.v, p.value_size), first_key, limits.keys, query_rows(p.dout, p.value_size), first_query,
                 limits.queries);
    order();
  }

  JAXATOR_DEVICE void add_tile(int batch, int head, int first_query, int first_key) {
    const BackwardParams p = argument<BackwardParams>();
    const Limits limits = limits_of(p.see, batch);
    const int last = smaller(first_query + kTile, limits.queries) - 1;
    if (last < first_query) return;
    if (keys_of_query(p.see, limits, last).end <= first_key) return;
    if (keys_of_query(p.see, limits, first_query).begin >= first_key + kTile) return;
    const int query = first_query + static_cast<int>(column());
    const Interval seen = keys_of_query(p.see, limits, query);

    Acc x, dp;
    multiply(x, dp, limits, batch, head, first_query, first_key);
    const bool real = query < limits.queries;
    const u32 first = static_cast<u32>(first_key) + half() * 4;
    const PairPlace at{static_cast<u32>(batch), static_cast<u32>(head), first_query, column(), first};
    scale_and_bias<BackwardParams, true>(x, at);
    hide_masked<BackwardParams, true>(x, at);
    hide_segments<BackwardParams, true>(x, at, real ? segment(batch, query) : -1);
    add(x, dp, real ? row_values(batch, head, query) : RowValues{__builtin_inff(), 0},
        {seen.begin - static_cast<int>(first), seen.end - static_cast<int>(first)});
  }

  JAXATOR_DEVICE int segment(int batch, int query) const {
    const Visibility v = argument<BackwardParams>().see;
    return v.query_segments == nullptr ? 0 : v.query_segments[static_cast<i64>(batch) * v.query_length + query];
  }

  struct RowValues {
    float lse, delta;
  };
  JAXATOR_DEVICE RowValues row_values(int batch, int head, int query) const {
    const BackwardParams p = argument<BackwardParams>();
    const i64 row = (static_cast<i64>(batch) * p.heads + head) * p.see.query_length + query;
    return {p.row_lse[row], p.row_delta[row]};
  }

  /// seen: from the first of this lane's keys on. By selection: cotangents of rows that see nothing and values of padding may be
  /// NaN.
  JAXATOR_DEVICE void add(const Acc& x, const Acc& dp, const RowValues& row, const Interval& seen) {
    const bool live = row.lse != __builtin_inff();
#pragma unroll
    for (int e = 0; e < 16; e++) {
      const int key = e / 4 * 8 + e % 4;
      const bool visible = live && x[e] != minus_infinity() && key >= seen.begin && key < seen.end;
      sum_[e] += visible ? exp2_fast(x[e] - row.lse) * (dp[e] + row.delta) : 0.0f;
    }
  }

  JAXATOR_DEVICE float moved(float x, u32 mask) const {
    return bits_as<float>(__builtin_amdgcn_ds_bpermute(static_cast<int>((lane_ ^ mask) * 4), bits_as<int>(x)));
  }

  /// To element 0 of half 0, and to column 0.
  JAXATOR_DEVICE void sum_over_broadcasts() {
    if (bias_.key == 0) {
#pragma unroll
      for (int e = 1; e < 16; e++) sum_[0] += sum_[e];
      sum_[0] += moved(sum_[0], 32);
    }
    if (bias_.query == 0) {
#pragma unroll
      for (int e = 0; e < 16; e++)
#pragma unroll
        for (u32 mask = 16; mask > 0; mask /= 2) sum_[e] += moved(sum_[e], mask);
    }
  }

  JAXATOR_DEVICE void store(int batch, int head, int first_query, int first_key) const {
    const int query = first_query + static_cast<int>(column());
    const BackwardParams p = argument<BackwardParams>();
    if (bias_.query == 0 ? column() != 0 : query >= p.see.query_length) return;
    const i64 row = batch * bias_.batch + head * bias_.head + query * bias_.query;
#pragma unroll
    for (u32 e = 0; e < 16; e++) {
      const int key = first_key + static_cast<int>(half() * 4 + e / 4 * 8 + e % 4);
      if (bias_.key == 0 ? e == 0 && half() == 0 : key < p.see.key_length) p.dbias[row + key * bias_.key] = sum_[e];
    }
  }

  const BackwardParams& p_;
  PairArray bias_;
  const u32 lane_;
  Acc sum_ = {};
};

}  // namespace
}  // namespace jaxator::cdna::attention

using namespace jaxator::cdna;
using attention::BackwardParams, attention::BiasGradient;

JAXATOR_KERNEL(256) attention_bias_64_bf16(BackwardParams p) { BiasGradient<64, Bf16>(p).run(); }
JAXATOR_KERNEL(256) attention_bias_64_f16(BackwardParams p) { BiasGradient<64, F16>(p).run(); }
JAXATOR_KERNEL(256) attention_bias_128_bf16(BackwardParams p) { BiasGradient<128, Bf16>(p).run(); }
JAXATOR_KERNEL(256) attention_bias_128_f16(BackwardParams p) { BiasGradient<128, F16>(p).run(); }
