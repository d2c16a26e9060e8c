/// @file
/// Attention forward on CDNA. A block has 256 queries of one head, a wave 32 of them; all stream the same tiles of 64 keys.
///
/// S^T = K Q^T leaves one query in the lanes l and l + 32, so the softmax needs no exchange unless the maximum rises.
/// O^T = V^T P^T takes P from the registers where S^T left it. The waves 4..7 run one barrier behind the waves 0..3: one half
/// multiplies while the other half does the softmax. What a phase multiplies it finds in registers or reads some products ahead.
#pragma once

#include "src/ops/attention/cdna_forward_ring.h"
#include "src/ops/attention/cdna_pairs.h"

namespace jaxator::cdna::attention {

/// T: element type. kPairs: mask, bias and segments are read, and the scale may have any sign.
template <int kHead, class T, bool kPairs> class Forward {
 public:
  using Ring = ForwardRing<kHead, kPairs ? Dead::negative : Dead::never>;
  using Two = Lanes<float, 2>;
  /// Of a tile's probabilities in one lane, before the maximum has to rise: it costs no precision and fits in float16.
  static constexpr float kMostSum = 0x1p12f;
  static constexpr int kSteps = kHead / 16, kBlocks = kHead / 32, kHalves = kForwardKeys / 32;

  JAXATOR_DEVICE Forward(const ForwardParams& p, Lds memory)
      : p_(p),
        memory_(memory),
        place_(p.batch * p.heads),
        batch_(place_.column / p.heads),
        head_(place_.column % p.heads),
        key_head_(head_ / (p.heads / p.kv_heads)),
        wave_(uniform(thread_x() / kWave)),
        lane_(thread_x() % kWave),
        query_((p.tiles - 1 - static_cast<int>(place_.tile)) * kForwardQueries + static_cast<int>(wave_) * 32),
        limits_(limits_of(p.see, batch_)),
        keys_(visited()),
        ring_(memory, rows(p.k, p.see.key_length, p.kv_heads, key_head_, p.head_size),
              rows(p.v, p.see.key_length, p.kv_heads, key_head_, p.value_size), key_ids(),
              {keys_.begin * kForwardKeys, limits_.keys}, lane_, wave_),
        key_reader_(lane_),
        value_(lane_) {}

  JAXATOR_DEVICE void run() {
    ring_.start();
    load_queries();
    see_tiles();
    barrier();
    if (wave_ >= kWaves / 2) barrier();
    multiply_keys(0);
    const int tiles = keys_.end - keys_.begin;
    for (int i = 0; i < tiles;) {
      if (!kPairs && !seen_whole(i)) hide_outside(keys_.begin + i);
      do {
        barrier();
        ring_.before_softmax(i);
        softmax(i);
        ring_.after_softmax(i);
        order();
        wait<63, 0>();
        barrier();
        priority<1>();
        multiply(i);
        order();
        priority<0>();
        ring_.after_products();
        i++;
      } while (seen_whole(i) && !kPairs);
    }
    barrier();
    if (wave_ < kWaves / 2) barrier();
    finish();
  }

 private:
  /// Long tiles come first: under a causal mask the last queries see most keys.
  JAXATOR_DEVICE Interval visited() const {
    const int first = query_ - static_cast<int>(wave_) * 32, last = smaller(first + kForwardQueries, limits_.queries) - 1;
    if (last < first) return {0, 0};
    const int begin = keys_of_query(p_.see, limits_, first).begin, end = keys_of_query(p_.see, limits_, last).end;
    if (begin >= end) return {0, 0};
    return {begin / kForwardKeys, (end + kForwardKeys - 1) / kForwardKeys};
  }

  JAXATOR_DEVICE Rows rows(const void JAXATOR_GLOBAL* array, int length, int heads, u32 head, int size) const {
    return Rows(array, batch_, length, heads, head, size);
  }

  JAXATOR_DEVICE auto key_ids() const {
    if constexpr (!kPairs) {
      return RowMarks<Dead::never>{};
    } else {
      const int JAXATOR_GLOBAL* ids = p_.see.key_segments;
      if (ids != nullptr) ids += static_cast<i64>(batch_) * p_.see.key_length;
      return RowMarks<Dead::negative>{ids, limits_.keys};
    }
  }

  JAXATOR_DEVICE u32 column() const { return lane_ % 32; }
  JAXATOR_DEVICE u32 half() const { return lane_ / 32; }

  JAXATOR_DEVICE void load_queries() {
    const Rows q = rows(p_.q, p_.see.query_length, p_.heads, head_, p_.head_size);
    const Buffer buffer = q.from(query_, smaller(p_.see.query_length - query_, 32));
#pragma unroll
    for (u32 step = 0; step < kSteps; step++) q_[step] = buffer.load<Vector>(q.offset(column(), 2 * step + half()));
    if (kPairs && p_.see.query_segments != nullptr) {
      const int query = query_ + static_cast<int>(column());
      const int JAXATOR_GLOBAL* ids = p_.see.query_segments + static_cast<i64>(batch_) * p_.see.query_length;
      query_id_ = query < p_.see.query_length ? ids[query] : -1;
    }
  }

  /// Tiles that all queries of this wave see whole, and what this lane's query sees.
  JAXATOR_DEVICE void see_tiles() {
    const int last = smaller(query_ + 32, limits_.queries) - 1;
    const int end = last < query_ ? 0 : keys_of_query(p_.see, limits_, query_).end / kForwardKeys;
    inner_begin_ = (keys_of_query(p_.see, limits_, last).begin + kForwardKeys - 1) / kForwardKeys;
    inner_count_ = static_cast<u32>(larger(end - inner_begin_, 0));
    seen_ = keys_of_query(p_.see, limits_, query_ + static_cast<int>(column()));
  }

  /// S^T = K(i) Q^T, reading as it goes.
  JAXATOR_DEVICE void multiply_keys(int i) {
#pragma unroll
    for (int n = 0; n < kHalves; n++) s_[n] = Acc{};
#pragma unroll
    for (int step = 0; step < kSteps; step++) {
#pragma unroll
      for (int n = 0; n < kHalves; n++)
        s_[n] = multiply_add<32, T>(key_reader_.read(memory_, Ring::key_tile(i), step, n), q_[step], s_[n]);
      if (step % 2 == 1) order();
    }
  }

  /// O^T += V^T P^T of tile i while the fragments of K(i + 1) are read, then S^T = K(i + 1) Q^T. What else a phase has to do goes
  /// between its products, a few instructions after each: only they keep the next one waiting.
  JAXATOR_DEVICE void multiply(int i) {
    Vector k[kSteps][kHalves];
    multiply_values<0>(i, k);
    if constexpr (kPairs) {
      multiply_keys(i + 1);  // too few registers to read ahead
      ring_.template beside_keys<3>(i), ring_.template beside_keys<5>(i);
    } else {
#pragma unroll
      for (int n = 0; n < kHalves; n++) s_[n] = Acc{};
      multiply_keys<0>(i, k);
    }
  }

  template <int product> JAXATOR_DEVICE void multiply_values(int i, Vector (&k)[kSteps][kHalves]) {
    constexpr int kProducts = kForwardKeys / 16 * kBlocks, kReads = kSteps * kHalves;
    if constexpr (product < kProducts) {
      constexpr int kStep = product / kBlocks, kBlock = product % kBlocks;
      out_[kBlock] = multiply_add<32, T>(value_(kStep, kBlock), probability_[kStep], out_[kBlock]);
      order();
      if constexpr (!kPairs) read_keys<product * kReads / kProducts, (product + 1) * kReads / kProducts>(k, i + 1);
      if constexpr (product == 0) sum_ += tile_sum_;
      ring_.template beside_values<product>(i);
      order();
      multiply_values<product + 1>(i, k);
    }
  }

  template <int product> JAXATOR_DEVICE void multiply_keys(int i, const Vector (&k)[kSteps][kHalves]) {
    if constexpr (product < kSteps * kHalves) {
      constexpr int n = product / kSteps, kStep = product % kSteps;
      s_[n] = multiply_add<32, T>(k[kStep][n], q_[kStep], s_[n]);
      order();
      ring_.template beside_keys<product>(i);
      order();
      multiply_keys<product + 1>(i, k);
    }
  }

  template <int from, int to> JAXATOR_DEVICE void read_keys(Vector (&k)[kSteps][kHalves], int i) const {
    if constexpr (from < to) {
      k[from / kHalves][from % kHalves] = key_reader_.read(memory_, Ring::key_tile(i), from / kHalves, from % kHalves);
      read_keys<from + 1, to>(k, i);
    }
  }

  /// Probabilities of tile i from its logits, relative to 2^most_. The largest logit is not looked for: probabilities are made
  /// with the maximum that is known, and their sum, which is needed anyway, tells whether it still serves. If not, which is rare
  /// after the first tile, they are made again.
  JAXATOR_DEVICE void softmax(int i) {
    if constexpr (kPairs) {
      add_pairs(keys_.begin + i);
      if (!seen_whole(i)) hide_outside(keys_.begin + i);
    }
    order();
    tile_sum_ = exponentials<!kPairs>(i);
    order();
    if (__builtin_expect(__builtin_amdgcn_ballot_w64(tile_sum_ > kMostSum) != 0, 0)) {
      raise_maximum();
      tile_sum_ = exponentials<false>(i);
    }
    if constexpr (kPairs) read_all_values(Ring::value_tile(i));
  }

  /// With mask, bias and segments there are no registers for them before.
  JAXATOR_DEVICE void read_all_values(u32 values) {
    order();
    value_.template read<0>(memory_, values);
    value_.template read<1>(memory_, values);
    if constexpr (Ring::ValueReader::kParts > 2)
      value_.template read<2>(memory_, values), value_.template read<3>(memory_, values);
  }

  JAXATOR_DEVICE float exponent_scale() const { return kPairs ? 1.0f : p_.scale; }

  /// The running maximum moves, and with it all that was summed. It starts as the least float, so that the exponent of a row that
  /// has seen no key yet is -inf and not NaN, and the first key seen gives a sum of infinity.
  JAXATOR_DEVICE void raise_maximum() {
    const float most = __builtin_fmaxf(largest(), most_), factor = exp2_fast(most_ - most);
    most_ = most;
    sum_ *= factor;
#pragma unroll
    for (int block = 0; block < kBlocks; block++) out_[block] *= factor;
  }

  /// The largest exponent of this lane's query.
  JAXATOR_DEVICE float largest() const {
    float most = s_[0][0];
#pragma unroll
    for (int n = 0; n < kHalves; n++)
#pragma unroll
      for (int e = 0; e < 16; e += 2) most = __builtin_fmaxf(most, __builtin_fmaxf(s_[n][e], s_[n][e + 1]));
    return across_halves(most, [](float a, float b) { return __builtin_fmaxf(a, b); }) * exponent_scale();
  }

  /// Probabilities become operands; returns this lane's part of their sum.
  template <bool kReads> JAXATOR_DEVICE float exponentials(int i) {
    Two sum = {0, 0};
    const Two first = exponents(0);
    order();
    exponentials_from<kReads, 0>(Ring::value_tile(i), sum, first, Two{});
    return sum[0] + sum[1];
  }

  /// Pair after pair of keys, and V(i) one read at a time: an exponential takes the vector unit for two passes (gfx942: four), in
  /// which the wave reads and the other wave of the SIMD starts products; in a burst the reads would hold up every wave. x:
  /// exponents of pair j; before: probabilities of pair j - 1, which are there by now.
  template <bool kReads, int j> JAXATOR_DEVICE void exponentials_from(u32 values, Two& sum, Two x, Two before) {
    constexpr int kPairsOfTile = kForwardKeys / 4, kReadingPairs = 12, kOfTile = Ring::ValueReader::kReads;
    constexpr int kFrom = smaller(j * kOfTile / kReadingPairs, kOfTile);
    constexpr int kTo = smaller((j + 1) * kOfTile / kReadingPairs, kOfTile), kMiddle = (kFrom + kTo + 1) / 2;
    Two y, next = {0, 0};
    if constexpr (j < kPairsOfTile) {
      y[0] = exp2_fast(x[0]);
      order();
      if constexpr (kReads) value_.template read_range<kFrom, kMiddle>(memory_, values);
      order();
    }
    if constexpr (j + 1 < kPairsOfTile) next = exponents(j + 1);
    order();
    if constexpr (j < kPairsOfTile) {
      y[1] = exp2_fast(x[1]);
      order();
      if constexpr (kReads) value_.template read_range<kMiddle, kTo>(memory_, values);
      order();
    }
    if constexpr (j > 0) {
      sum += before;
      if constexpr (j == kPairsOfTile) order();
      u32 word = pack_operand2<T>(before[0], before[1]);
      pin(word);
      probability_[(j - 1) / 4][(j - 1) % 4] = word;
    }
    order();
    if constexpr (j < kPairsOfTile) exponentials_from<kReads, j + 1>(values, sum, next, y);
  }

  JAXATOR_DEVICE Two exponents(int j) const {
    return Two{s_[j / 8][j % 8 * 2], s_[j / 8][j % 8 * 2 + 1]} * exponent_scale() - most_;
  }

  /// By all queries of the wave. Such tiles are among those that the block visits.
  JAXATOR_DEVICE bool seen_whole(int i) const { return static_cast<u32>(keys_.begin + i - inner_begin_) < inner_count_; }

  /// -inf where causal, window or lengths hide the key.
  JAXATOR_DEVICE void hide_outside(int tile) {
#pragma unroll
    for (int n = 0; n < kHalves; n++) {
      const int first = tile * kForwardKeys + n * 32 + static_cast<int>(half()) * 4;
      hide_outside_of(s_[n], seen_.begin - first, seen_.end - first);
    }
  }

  JAXATOR_DEVICE void add_pairs(int tile) {
#pragma unroll
    for (int n = 0; n < kHalves; n++) {
      const u32 row = static_cast<u32>(tile * kForwardKeys + n * 32) + half() * 4;
      const PairPlace at{batch_, head_, query_, column(), row};
      scale_and_bias<ForwardParams, true>(s_[n], at);
      hide_masked<ForwardParams, true>(s_[n], at);
      hide_segments<ForwardParams, true>(s_[n], at, query_id_);
    }
  }

  /// Rows that saw no key get 0 and -inf by selection: their sums may be NaN.
  JAXATOR_DEVICE void finish() {
    wait<0>();  // of tiles beyond the last, which still are copied to LDS
    const int query = query_ + static_cast<int>(column());
    const float sum = across_halves(sum_, [](float a, float b) { return a + b; });
    const bool seen = query < limits_.queries && sum != 0;
    const float factor = 1 / sum;
    if (half() == 0 && query < p_.see.query_length) {
      const i64 row = (static_cast<i64>(batch_) * p_.see.query_length + query) * p_.heads + head_;
      p_.lse[row] = seen ? (most_ + __builtin_amdgcn_logf(sum)) * kLn2 : minus_infinity();
    }
    const Rows to = rows(p_.out, p_.see.query_length, p_.heads, head_, p_.value_size);
    store_rows<T>(to, to.from(query_, smaller(p_.see.query_length - query_, 32)), lane_, out_, factor, seen);
  }

  const ForwardParams& p_;
  const Lds memory_;
  const Place place_;
  const u32 batch_, head_, key_head_, wave_, lane_;
  const int query_;  // first of this wave
  const Limits limits_;
  const Interval keys_;  // tiles that the block visits
  Interval seen_;        // keys, of this lane's query
  int inner_begin_;      // tiles that all queries of the wave see whole
  u32 inner_count_;
  int query_id_ = 0;
  Ring ring_;
  RowReader<typename Ring::KeyTile> key_reader_;
  typename Ring::ValueReader value_;
  Vector q_[kSteps], probability_[kForwardKeys / 16];
  Acc s_[kHalves], out_[kBlocks] = {};
  float most_ = -0x1.fffffep127f, sum_ = 0, tile_sum_;
};

template <int kHead, class T, bool kPairs> JAXATOR_DEVICE void forward(const ForwardParams& p) {
  JAXATOR_SHARED __attribute__((aligned(1024))) u8 memory[ForwardRing < kHead, kPairs ? Dead::negative : Dead::never > ::kBytes];
  Forward<kHead, T, kPairs>(p, memory).run();
}

}  // namespace jaxator::cdna::attention
