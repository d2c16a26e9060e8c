/// @file
/// What both passes of attention share on CDNA: which pairs of query and key are visible, where rows lie in memory, and how
/// probabilities become operands.
///
/// Causal, window and lengths are intervals whose ends grow with the query, so a tile of queries sees one interval of keys and
/// a tile of keys one of queries; tiles outside are not visited, and tiles where all sees all need no selection. Mask, bias and
/// segments are read pair by pair.
#pragma once

#include "src/ops/attention/cdna_params.h"
#include "src/tile/cdna/buffer.h"
#include "src/tile/cdna/mfma.h"
#include "src/tile/cdna/schedule.h"

namespace jaxator::cdna::attention {

inline constexpr float kLog2E = 1.44269504088896340736f, kLn2 = 0.69314718055994530942f;

/// Waves of a block: two for each SIMD, so that one half multiplies while the other half does arithmetic. 256 registers a lane.
inline constexpr u32 kWaves = 8;
#define JAXATOR_ATTENTION_KERNEL \
  extern "C" __attribute__((amdgpu_kernel, amdgpu_flat_work_group_size(512, 512), amdgpu_waves_per_eu(2, 2))) void

using Acc = Accumulator<32>;

constexpr JAXATOR_DEVICE int smaller(int a, int b) { return a < b ? a : b; }
constexpr JAXATOR_DEVICE int larger(int a, int b) { return a > b ? a : b; }
JAXATOR_DEVICE int uniform(int value) { return __builtin_amdgcn_readfirstlane(value); }
JAXATOR_DEVICE float minus_infinity() { return -__builtin_inff(); }
JAXATOR_DEVICE float exp2_fast(float x) { return __builtin_amdgcn_exp2f(x); }

/// Sizes of one batch entry.
struct Limits {
  int queries, keys;  // after lengths
  int shift;          // query i stands at i + shift
};

/// Half-open.
struct Interval {
  int begin, end;
  JAXATOR_DEVICE bool empty() const { return begin >= end; }
};

/// All lanes ask for the same batch entry.
JAXATOR_DEVICE Limits limits_of(const Visibility& v, u32 batch) {
  Limits limits{v.query_length, v.key_length, 0};
  if (v.query_lengths != nullptr) limits.queries = uniform(smaller(larger(v.query_lengths[batch], 0), v.query_length));
  if (v.key_lengths != nullptr) limits.keys = uniform(smaller(larger(v.key_lengths[batch], 0), v.key_length));
  if (v.bottom_right) limits.shift = limits.keys - limits.queries;
  return limits;
}

/// Keys that a query sees by causal, window and lengths; empty if begin >= end. Comparisons of differences: sums could pass 2^31.
JAXATOR_DEVICE Interval keys_of_query(const Visibility& v, const Limits& limits, int query) {
  const int at = query + limits.shift;
  const int end = v.window_right < limits.keys - at ? at + v.window_right + 1 : limits.keys;
  return {v.window_left < at ? at - v.window_left : 0, larger(end, 0)};
}

/// Queries that see a key by causal, window and lengths; empty if begin >= end.
JAXATOR_DEVICE Interval queries_of_key(const Visibility& v, const Limits& limits, int key) {
  const int at = key - limits.shift;
  const int end = v.window_left < limits.queries - at ? at + v.window_left + 1 : limits.queries;
  const int begin = v.window_right == kUnbounded ? 0 : at - v.window_right;
  return {larger(begin, 0), larger(end, 0)};
}

/// The value is there before what follows in the order of the program; the compiler sinks arithmetic past barriers, to where
/// results are used.
template <class V> JAXATOR_DEVICE void pin(V& value) { asm volatile("" : "+v"(value)); }

/// The same for a value that all lanes share. The compiler may have put it in a vector register.
template <class V> JAXATOR_DEVICE void pin_shared(V& value) {
  if constexpr (sizeof(V) == 4) value = bits_as<V>(__builtin_amdgcn_readfirstlane(bits_as<int>(value)));
  asm volatile("" : "+s"(value));
}
JAXATOR_DEVICE void pin_shared(u64& value) {
  u32 low = static_cast<u32>(value), high = static_cast<u32>(value >> 32);
  pin_shared(low), pin_shared(high);
  value = static_cast<u64>(high) << 32 | low;
}

/// The kernel's only argument, read again where it is used: what a rare part of a loop needs then is not kept in registers.
template <class Params> JAXATOR_DEVICE Params argument() {
  struct Words {
    u32 word[sizeof(Params) / 4];
  } words;
  auto* at = static_cast<const __attribute__((address_space(4))) u32*>(__builtin_amdgcn_kernarg_segment_ptr());
  pin_shared(at);
#pragma unroll
  for (u32 i = 0; i < sizeof(Params) / 4; i++) words.word[i] = at[i];
  return bits_as<Params>(words);
}

/// Rows of one head of an array [B, L, heads, size]: `stride` bytes apart, of which `bytes` are the head's.
struct Rows {
  const u8 JAXATOR_GLOBAL* begin;
  u32 stride, bytes;

  JAXATOR_DEVICE Rows(const void JAXATOR_GLOBAL* array, i64 batch, i64 length, u32 heads, u32 head, u32 size, u32 item = 2)
      : begin(static_cast<const u8 JAXATOR_GLOBAL*>(array) + ((batch * length) * heads + head) * size * item),
        stride(heads * size * item),
        bytes(size * item) {}

  /// `rows` rows from `first` on. The host sees to it that no tile has 2 GiB.
  JAXATOR_DEVICE Buffer from(int first, int rows) const {
    const u8 JAXATOR_GLOBAL* at = begin + static_cast<i64>(first) * stride;
    return Buffer(at, static_cast<u32>(uniform(larger(rows, 0))) * stride);
  }

  /// The offset of 16-byte chunk `chunk` of row `row` of such a buffer; kNowhere beyond the head's columns.
  JAXATOR_DEVICE u32 offset(u32 row, u32 chunk) const { return chunk * 16 < bytes ? row * stride + chunk * 16 : kNowhere; }
};

/// Rows [first, end) of one head, or the same of `heads` heads side by side.
struct RowRun {
  int first, end;
  int heads = 1;
};

/// Goes over a run in tiles of kRows rows, then over tiles without any. Scalar arithmetic, kept short: it goes between products.
template <int kRows, bool kHeads = false> class TileCursor {
 public:
  JAXATOR_DEVICE explicit TileCursor(const RowRun& run)
      : left_(uniform(run.end - run.first)), length_(run.end - run.first), heads_(run.heads) {
    clamp();
  }

  /// Of the tile.
  JAXATOR_DEVICE int rows() const { return rows_; }
  /// Rows from the first of the tile to the end; may be less than none.
  JAXATOR_DEVICE int left() const { return left_; }
  JAXATOR_DEVICE int head() const { return head_; }

  /// To the next tile; true if it is of the next head.
  JAXATOR_DEVICE bool step() {
    left_ -= kRows;
    const bool next = kHeads && left_ <= 0 && head_ + 1 < heads_;
    if (next) left_ = length_, head_++;
    clamp();
    return next;
  }

 private:
  /// In assembly: bounds that are constants become v_med3, whose result the compiler would take for different in each lane.
  JAXATOR_DEVICE void clamp() {
    asm("s_min_i32 %0, %1, %2\n\ts_max_i32 %0, %0, 0" : "=&s"(rows_) : "s"(left_), "n"(kRows) : "scc");
  }

  int left_, length_, heads_, head_ = 0, rows_;
};

/// Where the tiles of a run lie in an array.
template <int kRows> class RowStream {
 public:
  /// jump: bytes from one head to the next.
  JAXATOR_DEVICE RowStream(const Rows& rows, const RowRun& run, u32 jump = 0)
      : at_(reinterpret_cast<u64>(rows.begin) + static_cast<u64>(static_cast<i64>(run.first - kRows) * rows.stride)),
        start_(at_),
        stride_(rows.stride),
        jump_(jump) {}

  /// The next tile, of so many rows. One register pair has both the place and the buffer's address: it moves first.
  JAXATOR_DEVICE Buffer next(int rows) {
    at_ += kRows * stride_;
    u32 bytes = static_cast<u32>(rows) * stride_;
    pin_shared(at_), pin_shared(bytes);
    return Buffer(reinterpret_cast<const u8 JAXATOR_GLOBAL*>(at_), bytes);
  }
  JAXATOR_DEVICE void next_head() { at_ = start_ += jump_; }

 private:
  u64 at_, start_;
  u32 stride_, jump_;
};

/// The block's place in a grid of `tiles` tiles for each of `columns` pairs of batch entry and head: blocks that run together
/// share a tile's number, and each of the eight dies (XCDs), which take blocks in turn, gets neighbouring columns: its cache then
/// holds the keys of few heads.
struct Place {
  u32 tile, column;
  JAXATOR_DEVICE Place(u32 columns) : tile(block_x() / columns), column(block_x() % columns) {
    constexpr u32 kDies = 8;
    if (columns % kDies == 0) column = column % kDies * (columns / kDies) + column / kDies;
  }
};

/// Two numbers of an operand in one register. gfx942 has no conversion to bfloat16: it rounds halves away from zero, which takes
/// three instructions for two numbers and differs from nearest-even only in exact halves.
template <class T> JAXATOR_DEVICE u32 pack_operand2(float low, float high) {
  if constexpr (__is_same(T, Bf16) && !kGfx950) {
    constexpr u32 kUpperHalves = 0x07060302;
    return __builtin_amdgcn_perm(bits_as<u32>(high) + 0x8000u, bits_as<u32>(low) + 0x8000u, kUpperHalves);
  } else {
    return pack2<T>(low, high);
  }
}

/// Eight results of a lane, element first .. first + 7, as the operand of a product over their rows: what a product left in the
/// registers is in the order that the next one takes, if the other operand is read in the same order (see SlowRows).
template <class T, int first> JAXATOR_DEVICE Vector operand_of(const Acc& x) {
  Vector v;
#pragma unroll
  for (int i = 0; i < 4; i++) v[i] = pack_operand2<T>(x[first + 2 * i], x[first + 2 * i + 1]);
  return v;
}

/// -inf for results of a lane outside [begin, end): element e counts as 8 * (e / 4) + e % 4. A bit for each, and two instructions
/// for each element; a comparison and a selection for each would wait for one another.
JAXATOR_DEVICE void hide_outside_of(Acc& x, int begin, int end) {
  const auto below = [](int bit) { return ~(~0u << smaller(larger(bit, 0), 31)); };
  const u32 hidden = ~below(end) | below(begin), infinite = bits_as<u32>(minus_infinity());
#pragma unroll
  for (u32 e = 0; e < 16; e++) {
    u32 all = static_cast<u32>(__builtin_amdgcn_sbfe(static_cast<int>(hidden), e / 4 * 8 + e % 4, 1));
    pin(all);  // else it becomes a comparison
    x[e] = bits_as<float>((all & infinite) | (~all & bits_as<u32>(x[e])));
  }
}

/// Blocks of rows as the fixed or stored side of a product: lane l has row l % 32; element 4 i + e of block b of the results is
/// column 32 b + 8 i + 4 (l / 32) + e. Stores kBlocks blocks times `factor`, zeros where not `live`.
template <class T, int kBlocks>
JAXATOR_DEVICE void store_rows(const Rows& rows, const Buffer& buffer, u32 lane, const Acc (&x)[kBlocks], float factor,
                               bool live) {
#pragma unroll
  for (u32 block = 0; block < kBlocks; block++)
#pragma unroll
    for (u32 g = 0; g < 4; g++) {
      Lanes<float, 4> y;
#pragma unroll
      for (u32 e = 0; e < 4; e++) y[e] = live ? x[block][4 * g + e] * factor : 0.0f;
      if constexpr (__is_same(T, float))
        buffer.store(rows.offset(lane % 32, block * 8 + g * 2 + lane / 32), bits_as<Vector>(y));
      else
        buffer.store(rows.offset(lane % 32, block * 4 + g) + lane / 32 * 8, Lanes2{pack2<T>(y[0], y[1]), pack2<T>(y[2], y[3])});
    }
}

/// With the same of the other half of the wave: the lane that has the same column.
template <class Combine> JAXATOR_DEVICE float across_halves(float x, Combine combine) {
#if defined(__gfx950__)
  const auto both = __builtin_amdgcn_permlane32_swap(bits_as<u32>(x), bits_as<u32>(x), false, false);
  return combine(bits_as<float>(both[0]), bits_as<float>(both[1]));
#else
  return combine(x, bits_as<float>(__builtin_amdgcn_ds_bpermute(static_cast<int>((lane() ^ 32) * 4), bits_as<int>(x))));
#endif
}

}  // namespace jaxator::cdna::attention
