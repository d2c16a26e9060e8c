/// @file
/// Attention forward on CDNA. A block has 256 queries of one head, a wave 32 of them; all stream the same tiles of 64 keys.
///
/// S^T = K Q^T leaves one query in the lanes l and l + 32, so the softmax needs one exchange a tile. O^T = V^T P^T takes P from
/// the registers where S^T left it. The waves 4..7 run one barrier behind the waves 0..3: one half multiplies while the other
/// half does the softmax. What a phase multiplies it finds in registers or reads one fragment a product ahead.
#pragma once

#include "src/ops/attention/cdna_forward_ring.h"
#include "src/ops/attention/cdna_pairs.h"

namespace jaxator::cdna::attention {

/// T: element type. kPairs: mask, bias and segments are read, and the scale may have any sign.
template <int kHead, class T, bool kPairs> class Forward {
 public:
  using Ring = ForwardRing<kHead, kPairs ? Dead::negative : Dead::never>;
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
    barrier();
    const int tiles = keys_.end - keys_.begin;
    for (int i = 0; i < tiles; i++) {
      ring_.before_softmax(i);
      softmax(i);
      ring_.after_softmax(i);
      order();
      wait<63, 0>();
      barrier();
      priority<1>();
      ring_.before_products(i);
      order();
      if constexpr (kPairs)
        multiply_apart(i);
      else
        multiply(i);
      order();
      priority<0>();
      ring_.after_products();
      barrier();
    }
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

  JAXATOR_DEVICE void multiply_values() {
#pragma unroll
    for (int step = 0; step < kForwardKeys / 16; step++)
#pragma unroll
      for (int block = 0; block < kBlocks; block++)
        out_[block] = multiply_add<32, T>(value_(step, block), probability_[step], out_[block]);
  }

  /// O^T += V^T P^T of tile i while the fragments of K(i + 1) are read, then S^T = K(i + 1) Q^T.
  JAXATOR_DEVICE void multiply(int i) {
    constexpr int kValueProducts = kForwardKeys / 16 * kBlocks, kKeyProducts = kSteps * kHalves;
    constexpr int kInstructions = kGfx950 ? 1 : 2;  // of a product
    Vector k[kSteps][kHalves];
    read_keys(k, i + 1);
    multiply_values();
    interleave<Issue::lds_read, kKeyProducts, kInstructions * kValueProducts / kKeyProducts>();
    if constexpr (!kGfx950) order();
    ring_.between_products(i);
#pragma unroll
    for (int n = 0; n < kHalves; n++) s_[n] = Acc{};
#pragma unroll
    for (int step = 0; step < kSteps; step++) {
#pragma unroll
      for (int n = 0; n < kHalves; n++) s_[n] = multiply_add<32, T>(k[step][n], q_[step], s_[n]);
      if (step % 2 == 1) ring_.within_products(step / 2);
    }
  }

  /// The same where mask, bias and segments leave too few registers to read ahead.
  JAXATOR_DEVICE void multiply_apart(int i) {
    multiply_values();
    order();
    ring_.between_products(i);
    ring_.within_products(0), ring_.within_products(1);
    multiply_keys(i + 1);
  }

  JAXATOR_DEVICE void read_keys(Vector (&k)[kSteps][kHalves], int i) const {
#pragma unroll
    for (int step = 0; step < kSteps; step++)
#pragma unroll
      for (int n = 0; n < kHalves; n++) k[step][n] = key_reader_.read(memory_, Ring::key_tile(i), step, n);
  }

  /// `count` times `products` matrix instructions and one of another kind.
  template <Issue kind, int count, int products> JAXATOR_DEVICE static void interleave() {
#pragma unroll
    for (int i = 0; i < count; i++) {
      issue<Issue::mfma, products>();
      issue<kind, 1>();
    }
  }

  /// Probabilities of tile i from its logits, relative to 2^most_. Reads V(i) a part at a time: in one burst the reads would hold
  /// up the arithmetic of every wave.
  JAXATOR_DEVICE void softmax(int i) {
    const int tile = keys_.begin + i;
    const u32 values = Ring::value_tile(i);
    if constexpr (kPairs) add_pairs(tile);
    if (static_cast<u32>(tile - inner_begin_) >= inner_count_) hide_outside(tile);
    const float most = largest();
    read_values<0>(values);
    rescale(most);
    read_values<1>(values);
    exponentials<0>(values);
    exponentials<1>(values);
    if constexpr (kPairs) read_all_values(values);
  }

  template <int part> JAXATOR_DEVICE void read_values(u32 values) {
    order();
    if constexpr (!kPairs && part < Ring::ValueReader::kParts) value_.template read<part>(memory_, values);
    order();
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

  /// The running maximum moves, and with it all that was summed, only once it has risen by 2^kLag: hardly ever after the first
  /// tile. Probabilities then reach 2^kLag, which costs no precision. It starts as the least float, so that the exponent of a row
  /// that has seen no key yet is -inf and not NaN.
  JAXATOR_DEVICE void rescale(float most) {
    constexpr float kLag = 8;
    if (__builtin_amdgcn_ballot_w64(most > most_ + kLag)) {
      most = __builtin_fmaxf(most, most_);
      const float factor = exp2_fast(most_ - most);
      most_ = most;
      sum_ *= factor;
#pragma unroll
      for (int block = 0; block < kBlocks; block++) out_[block] *= factor;
    }
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

  template <int n> JAXATOR_DEVICE void exponentials(u32 values) {
    using Two = Lanes<float, 2>;
    Acc x = s_[n] * exponent_scale() - most_;
    Two part = {0, 0};
#pragma unroll
    for (int e = 0; e < 16; e++) x[e] = exp2_fast(x[e]);
#pragma unroll
    for (int e = 0; e < 16; e += 2) part += Two{x[e], x[e + 1]};
    sum_ += part[0] + part[1];
    read_values<2 + n>(values);
    probability_[2 * n] = operand_of<T, 0>(x);
    probability_[2 * n + 1] = operand_of<T, 8>(x);
    pin(probability_[2 * n]), pin(probability_[2 * n + 1]);
  }

  /// -inf where causal, window or lengths hide the key.
  JAXATOR_DEVICE void hide_outside(int tile) {
    const int first = tile * kForwardKeys + static_cast<int>(half()) * 4;
    const u32 begin = static_cast<u32>(seen_.begin - first);
    const u32 count = static_cast<u32>(larger(seen_.end - seen_.begin, 0));
#pragma unroll
    for (int n = 0; n < kHalves; n++)
#pragma unroll
      for (u32 e = 0; e < 16; e++)
        if (n * 32 + e / 4 * 8 + e % 4 - begin >= count) s_[n][e] = minus_infinity();
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
  float most_ = -0x1.fffffep127f, sum_ = 0;
};

template <int kHead, class T, bool kPairs> JAXATOR_DEVICE void forward(const ForwardParams& p) {
  JAXATOR_SHARED __attribute__((aligned(1024))) u8 memory[ForwardRing < kHead, kPairs ? Dead::negative : Dead::never > ::kBytes];
  Forward<kHead, T, kPairs>(p, memory).run();
}

}  // namespace jaxator::cdna::attention
