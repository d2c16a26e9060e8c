/// @file
/// What products read of a tile in LDS (cdna_tile.h): the tile's place is its offset from the start of the kernel's LDS, a
/// multiple of 256 bytes. Swizzles are exclusive ors, so all addresses of a lane come from one register.
#pragma once

#include "src/ops/attention/cdna_tile.h"

namespace jaxator::cdna::attention {

/// Fragments by rows.
template <class Tile> class RowReader {
 public:
  JAXATOR_DEVICE explicit RowReader(u32 lane) : at_(Tile::row_offset(lane, 0)) {}

  /// Of rows 32 block .. 32 block + 31.
  JAXATOR_DEVICE Vector read(Lds memory, u32 tile, u32 step, u32 block) const {
    return lds_load<Vector>(memory, ((tile + at_) ^ step * 32) + block * 32 * Tile::kRowBytes);
  }

 private:
  u32 at_;
};

/// Transposed fragments of a whole tile, of 16 kSteps rows and 32 kBlocks columns, read in kParts.
#if defined(__gfx950__)
template <int kHead, int kRows, Read kRead> class TransposedReader {
 public:
  using Tile = RowTile<kHead, kRows, kRead>;
  static constexpr int kSteps = kRows / 16, kBlocks = kHead / 32, kParts = kBlocks;
  static constexpr int kReads = 2 * kSteps * kBlocks;

  JAXATOR_DEVICE explicit TransposedReader(u32 lane) : at_(Tile::transposed_offset(lane, 0, 0)) {}

  /// The caller waits for what was read before it uses it.
  template <int part> JAXATOR_DEVICE void read(Lds memory, u32 tile) {
    read_range<part * kReads / kParts, (part + 1) * kReads / kParts>(memory, tile);
  }
  /// Instructions [from, to) of kReads.
  template <int from, int to> JAXATOR_DEVICE void read_range(Lds memory, u32 tile) {
    if constexpr (from < to) {
      constexpr int kBlock = from / (2 * kSteps), kStep = from / 2 % kSteps, kHalf = from % 2;
      const u32 first = (lds_address(memory) + tile + at_) ^ kBlock * 64;
      const u32 at = kHalf == 0 ? first : Tile::second_eight(first) - 8 * Tile::kRowBytes;
      half_[kStep][kBlock][kHalf] = lds_load_transposed_16<(kStep * 16 + kHalf * 8) * Tile::kRowBytes>(at);
      read_range<from + 1, to>(memory, tile);
    }
  }

  JAXATOR_DEVICE Vector operator()(int step, int block) const {
    return __builtin_shufflevector(half_[step][block][0], half_[step][block][1], 0, 1, 2, 3);
  }

 private:
  u32 at_;
  Lanes2 half_[kSteps][kBlocks][2];
};
#else
template <int kHead, int kRows, Read> class TransposedReader {
 public:
  using Tile = TurnedTile<kHead, kRows>;
  static constexpr int kSteps = kRows / 16, kBlocks = kHead / 32, kParts = kSteps;
  static constexpr int kReads = kSteps * kBlocks;

  JAXATOR_DEVICE explicit TransposedReader(u32 lane) : at_(Tile::read_offset(lane, 0)) {}

  template <int part> JAXATOR_DEVICE void read(Lds memory, u32 tile) {
    read_range<part * kReads / kParts, (part + 1) * kReads / kParts>(memory, tile);
  }
  /// Instructions [from, to) of kReads.
  template <int from, int to> JAXATOR_DEVICE void read_range(Lds memory, u32 tile) {
    if constexpr (from < to) {
      constexpr u32 kStep = from / kBlocks, kBlock = from % kBlocks;
      fragment_[kStep][kBlock] = lds_load<Vector>(memory, ((tile + at_) ^ kStep * 32) + kBlock * 32 * Tile::kColumnBytes);
      read_range<from + 1, to>(memory, tile);
    }
  }

  JAXATOR_DEVICE Vector operator()(int step, int block) const { return fragment_[step][block]; }

 private:
  u32 at_;
  Vector fragment_[kSteps][kBlocks];
};
#endif

}  // namespace jaxator::cdna::attention
