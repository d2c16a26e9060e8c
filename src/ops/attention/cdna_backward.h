/// @file
/// The gradients of attention on CDNA: dq, dk or dv, each by a kernel of its own that computes P again. A block has 256 rows of
/// one array (queries for dq, keys for dk and dv), a wave 32 of them in registers; all stream tiles of rows of the other side.
///   S = first fixed^T, dP = second other^T     rows of the tile by the wave's 32 rows: one of those in the lanes l and l + 32
///   P = exp2(scale S - lse2), dS = P (dP - delta)
///   dq^T += K^T dS, dk^T += Q^T dS, dv^T += dO^T P    P and dS are operands where the first products left them
/// As in the forward pass one half of the waves multiplies while the other half does the arithmetic. For dk and dv the heads of a
/// group follow each other, so nothing is summed outside of registers.
#pragma once

#include "src/ops/attention/cdna_backward_ring.h"
#include "src/ops/attention/cdna_pairs.h"

namespace jaxator::cdna::attention {

template <int kHead, class T, bool kPairs, Gradient kGradient> class Backward {
 public:
  static constexpr bool kByQuery = kGradient == Gradient::query;
  /// The sums of S begin with -lse / factor of their rows.
  static constexpr bool kStartsWithRows = !kByQuery && !kPairs;
  static constexpr Dead kDead = !kPairs ? Dead::never : kByQuery ? Dead::negative : Dead::infinite;
  using Ring = BackwardRing<kHead, kGradient, kDead>;
  static constexpr int kRows = Ring::kRows, kSteps = kHead / 16, kBlocks = kHead / 32, kHalves = kRows / 32;

  JAXATOR_DEVICE Backward(const BackwardParams& p, Lds memory)
      : p_(p),
        memory_(memory),
        place_(p.batch * (kByQuery ? p.heads : p.kv_heads)),
        batch_(place_.column / (kByQuery ? p.heads : p.kv_heads)),
        key_head_(kByQuery ? place_.column % p.heads / group(p) : place_.column % p.kv_heads),
        head_(kByQuery ? place_.column % p.heads : key_head_ * group(p)),
        wave_(uniform(thread_x() / kWave)),
        lane_(thread_x() % kWave),
        block_row_(static_cast<int>(kByQuery ? p.tiles - 1 - place_.tile : place_.tile) * kGradientRows),
        row_(block_row_ + static_cast<int>(wave_) * 32),
        limits_(limits_of(p.see, batch_)),
        run_(visited()),
        at_(run_.first),
        ring_(memory, kByQuery ? keys() : queries(p.q, p.head_size), kByQuery ? values() : queries(p.dout, p.value_size), run_,
              marks(), row_values(), lane_, wave_),
        reader_(lane_),
        turned_(lane_) {}

  JAXATOR_DEVICE void run() {
    ring_.start();
    load_fixed();
    see_tiles();
    barrier();
    if (wave_ >= kWaves / 2) barrier();
    multiply_rows(0);
    barrier();
    const int tiles = (run_.end - run_.first + kRows - 1) / kRows * run_.heads;
    for (int i = 0; i < tiles; i++) {
      ring_.before_arithmetic(i);
      arithmetic(i);
      next_tile();
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
  JAXATOR_DEVICE static u32 group(const BackwardParams& p) { return static_cast<u32>(p.heads) / static_cast<u32>(p.kv_heads); }
  JAXATOR_DEVICE u32 column() const { return lane_ % 32; }
  JAXATOR_DEVICE u32 half() const { return lane_ / 32; }

  /// Rows that see, or are seen by, any of the block's: each of them has a pair, so none is dead unless by mask, bias or
  /// segments.
  JAXATOR_DEVICE RowRun visited() const {
    const int last = smaller(block_row_ + kGradientRows, kByQuery ? limits_.queries : limits_.keys) - 1;
    if (last < block_row_) return {0, 0};
    const Interval low = interval_of(block_row_), high = interval_of(last);
    if (low.begin >= high.end) return {0, 0};
    return {low.begin, high.end, kByQuery ? 1 : static_cast<int>(group(p_))};
  }

  JAXATOR_DEVICE Interval interval_of(int row) const {
    return kByQuery ? keys_of_query(p_.see, limits_, row) : queries_of_key(p_.see, limits_, row);
  }

  JAXATOR_DEVICE Rows queries(const void JAXATOR_GLOBAL* array, int size) const {
    return Rows(array, batch_, p_.see.query_length, p_.heads, head_, size);
  }
  JAXATOR_DEVICE Rows keys() const { return Rows(p_.k, batch_, p_.see.key_length, p_.kv_heads, key_head_, p_.head_size); }
  JAXATOR_DEVICE Rows values() const { return Rows(p_.v, batch_, p_.see.key_length, p_.kv_heads, key_head_, p_.value_size); }

  JAXATOR_DEVICE i64 query_rows() const { return (static_cast<i64>(batch_) * p_.heads + head_) * p_.see.query_length; }

  JAXATOR_DEVICE RowMarks<kDead> marks() const {
    if constexpr (kDead == Dead::negative) {
      const int JAXATOR_GLOBAL* ids = p_.see.key_segments;
      return {ids == nullptr ? ids : ids + static_cast<i64>(batch_) * p_.see.key_length, run_.end};
    } else if constexpr (kDead == Dead::infinite) {
      return {reinterpret_cast<const int JAXATOR_GLOBAL*>(p_.row_lse + query_rows()), run_.end, p_.see.query_length};
    } else {
      return {};
    }
  }

  JAXATOR_DEVICE auto row_values() const {
    if constexpr (kByQuery) {
      return NoRowValues{};
    } else {
      const auto rows = [&](const float JAXATOR_GLOBAL* array) { return Rows(array + query_rows(), 0, 0, 1, 0, 1, 4); };
      const u32 jump = static_cast<u32>(p_.see.query_length) * 4;
      return typename Ring::RowValues(rows(p_.row_lse), rows(p_.row_delta), run_, jump, lane_, wave_);
    }
  }

  JAXATOR_DEVICE void load_rows(Vector (&to)[kSteps], const Rows& rows) const {
    const int length = kByQuery ? p_.see.query_length : p_.see.key_length;
    const Buffer buffer = rows.from(row_, smaller(length - row_, 32));
#pragma unroll
    for (u32 step = 0; step < kSteps; step++) to[step] = buffer.load<Vector>(rows.offset(column(), 2 * step + half()));
  }

  /// This wave's rows, and for dq what the arithmetic needs of them.
  JAXATOR_DEVICE void load_fixed() {
    load_rows(fixed_, kByQuery ? queries(p_.q, p_.head_size) : keys());
    if constexpr (kGradient != Gradient::value) load_rows(other_, kByQuery ? queries(p_.dout, p_.value_size) : values());
    const int length = kByQuery ? p_.see.query_length : p_.see.key_length, row = row_ + static_cast<int>(column());
    live_ = row < (kByQuery ? limits_.queries : limits_.keys);
    if constexpr (kByQuery) {
      const float lse = live_ ? p_.row_lse[query_rows() + row] : 0, delta = live_ ? p_.row_delta[query_rows() + row] : 0;
      live_ = live_ && !__builtin_isinf(lse);
      lse2_ = kPairs ? lse : -lse * p_.scale, delta_ = delta;
    }
    if constexpr (kPairs) {
      const int JAXATOR_GLOBAL* ids = kByQuery ? p_.see.query_segments : p_.see.key_segments;
      if (ids == nullptr) return;
      row_id_ = row < length ? ids[static_cast<i64>(batch_) * length + row] : -1;
      live_ = live_ && row_id_ >= 0;
    }
  }

  /// Where a tile begins whose rows see all of this wave's, and what this lane's row sees.
  JAXATOR_DEVICE void see_tiles() {
    const int last = smaller(row_ + 32, kByQuery ? limits_.queries : limits_.keys) - 1;
    inner_begin_ = interval_of(larger(last, 0)).begin;
    const int end = last < row_ ? 0 : interval_of(row_).end - kRows + 1;
    inner_count_ = static_cast<u32>(larger(end - inner_begin_, 0));
    seen_ = interval_of(row_ + static_cast<int>(column()));
  }

  JAXATOR_DEVICE void next_tile() {
    at_ += kRows;
    if (!kByQuery && at_ >= run_.end) at_ = run_.first, heads_done_++;
  }

  using Fragments = Vector[kSteps][kHalves];

  /// Fragments of the steps `from` to `to`.
  JAXATOR_DEVICE void read_rows(Fragments& rows, u32 tile, int from = 0, int to = kSteps) const {
#pragma unroll
    for (int step = from; step < to; step++)
#pragma unroll
      for (int n = 0; n < kHalves; n++) rows[step][n] = reader_.read(memory_, tile, step, n);
  }

  JAXATOR_DEVICE static void multiply_by(Acc (&x)[kHalves], const Fragments& rows, const Vector (&by)[kSteps], int from = 0,
                                         int to = kSteps) {
#pragma unroll
    for (int step = from; step < to; step++)
#pragma unroll
      for (int n = 0; n < kHalves; n++) x[n] = multiply_add<32, T>(rows[step][n], by[step], x[n]);
  }

  /// Where sums of products begin: for dk and dv with -lse / factor of the rows, so that nothing is left to subtract.
  JAXATOR_DEVICE void begin_products(int i) {
#pragma unroll
    for (int n = 0; n < kHalves; n++) product_[n] = kStartsWithRows ? of_rows(Ring::row_values(i), n) : Acc{};
  }
  JAXATOR_DEVICE void begin_other_products() {
#pragma unroll
    for (int n = 0; n < kHalves; n++) other_product_[n] = Acc{};
  }

  /// S and dP of tile i, reading as it goes.
  JAXATOR_DEVICE void multiply_rows(int i) {
    begin_products(i);
    multiply_tile(product_, Ring::first_tile(i), fixed_);
    if constexpr (kGradient != Gradient::value) {
      begin_other_products();
      multiply_tile(other_product_, Ring::second_tile(i), other_);
    }
  }
  JAXATOR_DEVICE void multiply_tile(Acc (&x)[kHalves], u32 tile, const Vector (&by)[kSteps]) const {
#pragma unroll
    for (int step = 0; step < kSteps; step += 2) {
      Fragments rows;
      read_rows(rows, tile, step, step + 2);
      multiply_by(x, rows, by, step, step + 2);
      order();
    }
  }

  static constexpr int kInstructions = kGfx950 ? 1 : 2;  // of a product

  /// `products` products, with `reads` reads spread among them, in the order of the program.
  template <int products, int reads, int done = 0> JAXATOR_DEVICE static void interleave() {
    if constexpr (done < products) {
      issue<Issue::mfma, kInstructions>();
      issue<Issue::lds_read, reads*(done + 1) / products - reads * done / products>();
      interleave<products, reads, done + 1>();
    } else {
      order();
    }
  }

  JAXATOR_DEVICE void multiply_sums() {
#pragma unroll
    for (int step = 0; step < kRows / 16; step++)
#pragma unroll
      for (int block = 0; block < kBlocks; block++)
        sum_[block] = multiply_add<32, T>(turned_(step, block), operand_[step], sum_[block]);
  }

  /// The same as `multiply` where mask, bias and segments leave too few registers to read ahead.
  JAXATOR_DEVICE void multiply_apart(int i) {
    multiply_sums();
    order();
    ring_.between_products(i);
    ring_.within_products(0), ring_.within_products(1), ring_.within_products(2);
    multiply_rows(i + 1);
  }

  /// The gradient's products of tile i while rows of tile i + 1 are read, then S and dP of those.
  JAXATOR_DEVICE void multiply(int i) {
    Fragments first;
    begin_products(i + 1);
    read_rows(first, Ring::first_tile(i + 1));
    multiply_sums();
    interleave<kRows / 16 * kBlocks, kSteps * kHalves + (kStartsWithRows ? 4 * kHalves : 0)>();
    ring_.between_products(i);
    multiply_next(i, first);
  }

  /// S and dP of tile i + 1. Reads go ahead of the products by half of a tile's fragments: all of them would not fit in the
  /// registers.
  JAXATOR_DEVICE void multiply_next(int i, const Fragments& first) {
    constexpr int kQuarter = kSteps / 4, kHalf = kSteps / 2, kProducts = kHalf * kHalves;
    if constexpr (kGradient != Gradient::value) {
      multiply_by(product_, first, fixed_, 0, kHalf);
      ring_.within_products(0);
      Fragments second;
      const u32 tile = Ring::second_tile(i + 1);
      read_rows(second, tile, 0, kHalf);
      multiply_by(product_, first, fixed_, kHalf);
      interleave<kProducts, kProducts>();
      ring_.within_products(1);
      begin_other_products();
      read_rows(second, tile, kHalf);
      multiply_by(other_product_, second, other_, 0, kHalf);
      interleave<kProducts, kProducts>();
      ring_.within_products(2);
      multiply_by(other_product_, second, other_, kHalf);
    } else {
#pragma unroll
      for (int part = 0; part < 4; part++) {
        multiply_by(product_, first, fixed_, part * kQuarter, (part + 1) * kQuarter);
        if (part < 3) ring_.within_products(part);
      }
    }
  }

  /// Operands of the gradient's products of tile i. What those multiply is read meanwhile, a part at a time.
  JAXATOR_DEVICE void arithmetic(int i) {
    const u32 turned = Ring::turned_tile(i), values = Ring::row_values(i);
    operands<0>(turned, values);
    if constexpr (kHalves > 1) operands<kHalves - 1>(turned, values);
    if constexpr (kPairs) read_all_turned(turned);
  }

  /// In two goes for each 32 rows.
  template <int go> JAXATOR_DEVICE void read_turned(u32 tile) {
    constexpr int kParts = Ring::TurnedReader::kParts, kGoes = 2 * kHalves;
    constexpr int kFrom = go * kParts / kGoes, kTo = (go + 1) * kParts / kGoes;
    order();
    if constexpr (!kPairs && kFrom < kTo) turned_.template read<kFrom>(memory_, tile);
    if constexpr (!kPairs && kFrom + 1 < kTo) turned_.template read<kFrom + 1>(memory_, tile);
    order();
  }
  JAXATOR_DEVICE void read_all_turned(u32 tile) {
    order();
    turned_.template read<0>(memory_, tile);
    turned_.template read<1>(memory_, tile);
    if constexpr (Ring::TurnedReader::kParts > 2)
      turned_.template read<2>(memory_, tile), turned_.template read<3>(memory_, tile);
  }

  /// Of rows 32 n .. 32 n + 31 of the tile.
  template <int n> JAXATOR_DEVICE void operands(u32 turned, u32 values) {
    Acc x = product_[n], delta = kByQuery ? Acc(delta_) : kGradient == Gradient::key ? of_rows(values + kRows * 4, n) : Acc{};
    if constexpr (kPairs) add_pairs(x, n);
    if (static_cast<u32>(at_ - inner_begin_) >= inner_count_) hide_outside<n>(x);
    if constexpr (!kPairs) x *= p_.scale;
    if constexpr (!kStartsWithRows) x -= kByQuery ? Acc(lse2_) : of_rows(values, n);
#pragma unroll
    for (int e = 0; e < 16; e++) x[e] = exp2_fast(x[e]);
    if constexpr (kGradient != Gradient::value) x *= other_product_[n] + delta;
    read_turned<2 * n>(turned);
    operand_[2 * n] = operand_of<T, 0>(x), operand_[2 * n + 1] = operand_of<T, 8>(x);
    pin(operand_[2 * n]), pin(operand_[2 * n + 1]);
    read_turned<2 * n + 1>(turned);
  }

  /// Values of the rows of a product, in the order of its results.
  JAXATOR_DEVICE Acc of_rows(u32 values, u32 n) const {
    Acc x;
#pragma unroll
    for (u32 e = 0; e < 16; e += 4) {
      const Vector four = lds_load<Vector>(memory_, values + (n * 32 + e / 4 * 8 + half() * 4) * 4);
#pragma unroll
      for (u32 i = 0; i < 4; i++) x[e + i] = bits_as<float>(four[i]);
    }
    return x;
  }

  template <int n> JAXATOR_DEVICE void hide_outside(Acc& x) const {
    const int first = at_ + static_cast<int>(half()) * 4;
    const u32 begin = static_cast<u32>(seen_.begin - first), count = static_cast<u32>(larger(seen_.end - seen_.begin, 0));
#pragma unroll
    for (u32 e = 0; e < 16; e++)
      if (n * 32 + e / 4 * 8 + e % 4 - begin >= count) x[e] = minus_infinity();
  }

  JAXATOR_DEVICE void add_pairs(Acc& x, int n) const {
    const u32 key = static_cast<u32>(kByQuery ? at_ + n * 32 : row_) + (kByQuery ? half() * 4 : column());
    const PairPlace at = kByQuery ? PairPlace{batch_, head_, row_, column(), key}
                                  : PairPlace{batch_, head_ + heads_done_, at_ + n * 32, key, half() * 4};
    scale_and_bias<BackwardParams, kByQuery>(x, at);
    hide_masked<BackwardParams, kByQuery>(x, at);
    hide_segments<BackwardParams, kByQuery>(x, at, row_id_);
  }

  JAXATOR_DEVICE void finish() {
    wait<0>();  // of tiles beyond the last, which still are copied to LDS
    const BackwardParams p = argument<BackwardParams>();
    const int length = kByQuery ? p.see.query_length : p.see.key_length;
    const int size = kGradient == Gradient::value ? p.value_size : p.head_size;
    const float factor = kGradient == Gradient::value ? 1.0f : p.factor;
    const u32 heads = kByQuery ? p.heads : p.kv_heads, head = kByQuery ? head_ : key_head_;
    const Rows to(p.gradient, batch_, length, heads, head, size, p.gradient_f32 ? 4 : 2);
    const Buffer buffer = to.from(row_, smaller(length - row_, 32));
    if (p.gradient_f32)
      store_rows<float>(to, buffer, lane_, sum_, factor, live_);
    else
      store_rows<T>(to, buffer, lane_, sum_, factor, live_);
  }

  const BackwardParams& p_;
  const Lds memory_;
  const Place place_;
  const u32 batch_, key_head_, head_, wave_, lane_;  // head_: for dk and dv the first of the group
  const int block_row_, row_;                        // first of the block's and of this wave's
  const Limits limits_;
  const RowRun run_;
  int at_;              // first row of the tile
  u32 heads_done_ = 0;  // of the group
  Interval seen_;
  int inner_begin_;
  u32 inner_count_;
  bool live_;
  int row_id_ = 0;
  float lse2_ = 0, delta_ = 0;
  Ring ring_;
  RowReader<typename Ring::FirstTile> reader_;
  typename Ring::TurnedReader turned_;
  Vector fixed_[kSteps], other_[kSteps], operand_[kRows / 16];
  Acc product_[kHalves], other_product_[kHalves], sum_[kBlocks] = {};
};

template <int kHead, class T, bool kPairs, Gradient kGradient> JAXATOR_DEVICE void backward(const BackwardParams& p) {
  using Kernel = Backward<kHead, T, kPairs, kGradient>;
  JAXATOR_SHARED __attribute__((aligned(1024))) u8 memory[Kernel::Ring::kBytes];
  Kernel(p, memory).run();
}

}  // namespace jaxator::cdna::attention
