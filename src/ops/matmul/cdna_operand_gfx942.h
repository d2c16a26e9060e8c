/// @file
/// An operand's tiles on gfx942: by way of registers to LDS, which has rows of 64 bytes of k whatever the fast direction in
/// memory was, and from there to fragments.
#pragma once

#include "src/ops/matmul/cdna_small_floats.h"
#include "src/ops/matmul/cdna_tile.h"

namespace jaxator::cdna {

/// Chunks of 16 bytes of a row's k. Rows r and r + 1 share a line of all banks; in every second four they are exchanged, and
/// chunks by a key, so that three accesses have no conflicts: reads of a chunk of 16 rows, writes of 16 bytes lane after lane,
/// and writes of 8 bytes for every fourth row, which is what transposing by fours in registers gives.
struct TileRows {
  static constexpr JAXATOR_DEVICE u32 place(u32 row) { return row ^ (row / 4 % 2); }  // its own inverse
  static constexpr JAXATOR_DEVICE u32 key(u32 row) { return (row / 2 ^ row / 8) % 2 | (row / 16 ^ row / 4) % 2 * 2; }
  static constexpr JAXATOR_DEVICE u32 offset(u32 row, u32 chunk) { return place(row) * kDepthBytes + (chunk ^ key(row)) * 16; }
  /// Where lane l writes eight bytes of k for row 4 * (l / 2).
  static constexpr JAXATOR_DEVICE u32 quad_offset(u32 l) { return offset(4 * (l / 2), 0) + l % 2 * 8; }
};
static_assert(kGfx950 || lds_conflicts(16, layout::Direction::read, [](u32 l) { return TileRows::offset(l % 16, l / 16); }) == 0);
static_assert(kGfx950 || lds_conflicts(8, layout::Direction::write, [](u32 l) { return TileRows::quad_offset(l); }) == 0);

template <int blocks> using Fragments = Vector[blocks];

/// The same number, of which the compiler knows nothing but that it may differ from step to step: what follows from it is
/// computed where it is used, and not kept in registers over the loop, which has none to spare.
JAXATOR_DEVICE u32 computed_anew(u32 x, u32 changing) {
  asm("" : "+s"(x) : "s"(changing));
  return x;
}

/// Fragments from LDS. Where the block of 16 rows has an odd number the key's upper bit is exchanged.
class TileReader {
 public:
  JAXATOR_DEVICE TileReader(Lds memory, u32 lds, const Place& place, u32 first) : memory_(memory) {
    const u32 row = place.lane % 16, chunk = place.lane / 16;
    from_[0] = lds + TileRows::offset(first + row, chunk);
    from_[1] = lds + TileRows::offset(first + 16 + row, chunk);
  }
  template <int first, int blocks> JAXATOR_DEVICE void read(Fragments<blocks>& f) const {
#pragma unroll
    for (int i = 0; i < blocks; i++)
      f[i] = lds_load<Vector>(memory_, from_[(first + i) % 2] + (first + i) / 2 * 32 * kDepthBytes);
  }
  JAXATOR_DEVICE void turn() { from_[0] ^= kBufferBytes, from_[1] ^= kBufferBytes; }

 private:
  Lds memory_;
  u32 from_[2];
};

template <Major major, class T> class Operand;

/// k is the fast direction: two vectors a lane.
template <class T> class Operand<Major::k, T> : public TileReader {
 public:
  using Element = T;
  using Stream = TileStream<Major::k, kDepthBytes, sizeof(T)>;
  static constexpr int kAccesses = 2;  // of global memory, and of LDS, for a tile

  JAXATOR_DEVICE Operand(Lds memory, u32 lds, const Stream& stream, const Place& place, u32 first)
      : TileReader(memory, lds, place, first), memory_(memory), to_(lds + thread_x() * 16) {
    const u32 row = TileRows::place(thread_x() / 4);
    byte_ = (place.lane % 4 ^ TileRows::key(row)) * 16;
#pragma unroll
    for (u32 i = 0; i < 2; i++) offset_[i] = (row + i * 128) * stream.pitch() + byte_;
  }

  JAXATOR_DEVICE void fetch(Stream& stream) {
    const Buffer tile = stream.tile();
    const bool inside = byte_ < stream.k_bytes();  // else it would be the next row's beginning
#pragma unroll
    for (int i = 0; i < 2; i++) vector_[i] = tile.load<Vector>(inside ? offset_[i] : kNowhere);
    stream.advance();
  }
  /// What was fetched, to the other buffer.
  JAXATOR_DEVICE void put() {
#pragma unroll
    for (u32 i = 0; i < 2; i++) {
      if constexpr (kEightBits<T>) to_fnuz<T>(vector_[i], special_);
      lds_store(memory_, to_ + i * 8192, vector_[i]);
    }
    to_ ^= kBufferBytes;
  }
  /// Bits of kSpecial are set if this lane met a NaN or an infinity of eight bits.
  JAXATOR_DEVICE u32 special() const { return special_; }

 private:
  Lds memory_;
  u32 to_, byte_, offset_[2], special_ = 0;
  Vector vector_[2];
};

/// Rows are the fast direction: a lane has four of them at four of k, and transposes.
template <class T> class Operand<Major::rows, T> : public TileReader {
  static_assert(sizeof(T) == 2);

 public:
  using Element = T;
  using Stream = TileStream<Major::rows, kDepthBytes, sizeof(T)>;
  static constexpr int kAccesses = 4;

  JAXATOR_DEVICE Operand(Lds memory, u32 lds, const Stream& stream, const Place& place, u32 first)
      : TileReader(memory, lds, place, first), memory_(memory) {
    const u32 row = place.wave % 2 * 128 + place.lane / 2 * 4, quad = place.wave / 2 * 2 + place.lane % 2;
    to_ = lds + TileRows::offset(row, quad / 2) + quad % 2 * 8;
    offset_ = quad * 4 * stream.pitch() + row * 2;
  }

  JAXATOR_DEVICE void fetch(Stream& stream) {
    const Buffer tile = stream.tile();
    const u32 pitch = computed_anew(stream.pitch(), stream.k_bytes());
#pragma unroll
    for (u32 i = 0; i < 4; i++) rows_[i] = tile.load<Lanes2>(offset_ + i * pitch);
    stream.advance();
  }
  JAXATOR_DEVICE void put() {
    constexpr u32 kLow = 0x05040100, kHigh = 0x07060302;  // halves of two registers
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
      const u32 half = i % 2 ? kHigh : kLow;
      const Lanes2 column{__builtin_amdgcn_perm(rows_[1][i / 2], rows_[0][i / 2], half),
                          __builtin_amdgcn_perm(rows_[3][i / 2], rows_[2][i / 2], half)};
      // To row + i: bits of its place, and the key's lower bit.
      lds_store(memory_, i == 0 ? to_ : to_ ^ computed_anew(i * kDepthBytes + i / 2 * 16, 0), column);
    }
    to_ ^= kBufferBytes;
  }

 private:
  Lds memory_;
  u32 to_, offset_;
  Lanes2 rows_[4];
};

}  // namespace jaxator::cdna
