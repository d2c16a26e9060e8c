/// @file
/// An operand's tiles on gfx950: from global memory to LDS without registers, from LDS to fragments. A tile comes in two halves
/// of 128 rows, each with half of every wave's rows: a half's place in LDS is free as soon as the waves have read it, long before
/// the tile's.
#pragma once

#include "src/ops/matmul/cdna_tile.h"

namespace jaxator::cdna {

inline constexpr u32 kHalfTile = kMatmulTile / 2, kHalfBytes = kOperandBytes / 2;
inline constexpr int kFetches = 2;                 // of 16 bytes a lane for a half
inline constexpr u32 kFetchBytes = kWaves * 1024;  // of all waves, next to each other in LDS

/// 16-byte reads of `kReads` parts of k for blocks of 16 rows.
template <int blocks> using Fragments = Vector[kReads][blocks];

/// Row of the tile that is row `row` of a half, where a wave has `of_wave` rows of each half.
template <u32 of_wave> constexpr JAXATOR_DEVICE u32 row_of_tile(u32 half, u32 row) {
  return row / of_wave * (2 * of_wave) + half * of_wave + row % of_wave;
}

/// A wave has `blocks` blocks of 16 rows in each half.
template <Major major, class T, int blocks> class Operand;

/// k is the fast direction: LDS has rows of 128 bytes of k. The swizzle is in the global addresses.
template <class T, int blocks> class Operand<Major::k, T, blocks> {
  using Rows = SwizzledRows<kDepthBytes>;

 public:
  using Element = T;
  using Stream = TileStream<Major::k, kDepthBytes, sizeof(T)>;

  /// `lds` is the place of this operand in a buffer, `first` the wave's first row in the tile.
  JAXATOR_DEVICE Operand(Lds memory, u32 lds, const Stream& stream, const Place& place, u32 first)
      : memory_(memory), to_(lds + place.wave * 1024) {
    const u32 row = place.wave * 8 + place.lane / 8;
    byte_ = (place.lane % 8 ^ Rows::key(row)) * 16;
#pragma unroll
    for (u32 half = 0; half < 2; half++)
#pragma unroll
      for (u32 i = 0; i < kFetches; i++)
        offset_[half][i] = row_of_tile<blocks * 16>(half, row + i * (kFetchBytes / kDepthBytes)) * stream.pitch() + byte_;
#pragma unroll
    for (u32 k = 0; k < kReads; k++) from_[k] = lds + Rows::offset(first / 2 + place.lane % 16, place.lane / 16 + 4 * k);
  }

  /// Finds the next tile: some twenty scalar instructions, to be done while the wave multiplies.
  JAXATOR_DEVICE void find(Stream& stream) {
    tile_ = stream.tile();
    const u32 nowhere = byte_ < stream.k_bytes() ? 0 : kNowhere;  // it would be the next row's beginning
#pragma unroll
    for (auto& half : offset_)
#pragma unroll
      for (u32& offset : half) offset = (offset & ~kNowhere) | nowhere;
    stream.advance();
    stream.settle();
  }
  /// Begins to bring a half of it; after the second one the next tile goes to the other buffer.
  template <int half> JAXATOR_DEVICE void fetch() {
#pragma unroll
    for (u32 i = 0; i < kFetches; i++) tile_.load_to_lds(memory_ + to_ + half * kHalfBytes + i * kFetchBytes, offset_[half][i]);
    if constexpr (half == 1) to_ ^= kBufferBytes;
  }

  template <int half> JAXATOR_DEVICE void read(Fragments<blocks>& f) const {
#pragma unroll
    for (int k = 0; k < kReads; k++)
#pragma unroll
      for (int i = 0; i < blocks; i++) f[k][i] = lds_load<Vector>(memory_, from_[k] + half * kHalfBytes + i * 16 * kDepthBytes);
  }
  /// To the other buffer.
  JAXATOR_DEVICE void turn() {
#pragma unroll
    for (u32& from : from_) from ^= kBufferBytes;
  }

 private:
  Lds memory_;
  Buffer tile_;
  u32 to_, byte_, offset_[2][kFetches], from_[kReads];
};

/// Half a tile in LDS with 64 rows of k, of 128 elements each. Blocks of 16 elements (32 bytes) are exchanged so that the eight
/// rows of k that half a wave reads lie in different banks.
struct KRows {
  static constexpr u32 kBytes = kHalfTile * 2;
  static constexpr JAXATOR_DEVICE u32 key(u32 k) { return k % 4 | k / 8 % 2 * 4; }
  static constexpr JAXATOR_DEVICE u32 offset(u32 k, u32 block, u32 byte) { return k * kBytes + (block ^ key(k)) * 32 + byte; }
  /// Where lane l reads for block 0: it gets row l % 16 of the block at k = 8 * (l / 16) and the three after it.
  static constexpr JAXATOR_DEVICE u32 read_offset(u32 l) { return offset(l / 16 * 8 + l % 16 / 4, 0, l % 4 * 8); }
};
static_assert(!kGfx950 || lds_conflicts(8, layout::Direction::read, [](u32 l) { return KRows::read_offset(l); }) == 0);

/// Rows are the fast direction: reads transpose.
template <class T, int blocks> class Operand<Major::rows, T, blocks> {
  static_assert(sizeof(T) == 2);

 public:
  using Element = T;
  using Stream = TileStream<Major::rows, kDepthBytes, sizeof(T)>;

  JAXATOR_DEVICE Operand(Lds memory, u32 lds, const Stream& stream, const Place& place, u32 first)
      : memory_(memory), to_(lds + place.wave * 1024) {
    const u32 k = place.wave * 4 + place.lane / 16, chunk = place.lane % 16 ^ 2 * KRows::key(k);
#pragma unroll
    for (u32 half = 0; half < 2; half++)
#pragma unroll
      for (u32 i = 0; i < kFetches; i++)
        offset_[half][i] =
            (k + i * (kFetchBytes / KRows::kBytes)) * stream.pitch() + row_of_tile<blocks * 16>(half, chunk * 8) * 2;
    from_ = lds_address(memory) + lds + (KRows::read_offset(place.lane) ^ first / 32 * 32);
  }

  JAXATOR_DEVICE void find(Stream& stream) {
    tile_ = stream.tile();
    stream.advance();
    stream.settle();
  }
  template <int half> JAXATOR_DEVICE void fetch() {
#pragma unroll
    for (u32 i = 0; i < kFetches; i++) tile_.load_to_lds(memory_ + to_ + half * kHalfBytes + i * kFetchBytes, offset_[half][i]);
    if constexpr (half == 1) to_ ^= kBufferBytes;
  }

  /// The caller waits: the compiler does not know of these reads.
  template <int half> JAXATOR_DEVICE void read(Fragments<blocks>& f) const {
    repeat<kReads>([&]<int k>() __attribute__((always_inline)) {
      repeat<blocks>([&]<int i>() __attribute__((always_inline)) {
        constexpr int kAt = half * kHalfBytes + k * 32 * KRows::kBytes;
        const u32 address = from_ ^ i * 32;
        const Lanes2 low = lds_load_transposed_16<kAt>(address), high = lds_load_transposed_16<kAt + 4 * KRows::kBytes>(address);
        f[k][i] = __builtin_shufflevector(low, high, 0, 1, 2, 3);
      });
    });
  }
  JAXATOR_DEVICE void turn() {
    from_ ^= kBufferBytes;
    asm("" : "+v"(from_));  // else the exchange is folded into addresses, and the old value is kept beside the new one
  }

 private:
  Lds memory_;
  Buffer tile_;
  u32 to_, offset_[2][kFetches], from_;
};

}  // namespace jaxator::cdna
