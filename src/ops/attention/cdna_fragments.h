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

  JAXATOR_DEVICE explicit TransposedReader(u32 lane) : at_(Tile::transposed_offset(lane, 0, 0)) {}

  /// The caller waits for what was read before it uses it.
  template <int part> JAXATOR_DEVICE void read(Lds memory, u32 tile) {
    const u32 first = (lds_address(memory) + tile + at_) ^ part * 64;
    read_steps<part, 0>(first, Tile::second_eight(first) - 8 * Tile::kRowBytes);
  }

  JAXATOR_DEVICE Vector operator()(int step, int block) const {
    return __builtin_shufflevector(half_[step][block][0], half_[step][block][1], 0, 1, 2, 3);
  }

 private:
  template <int block, int step> JAXATOR_DEVICE void read_steps(u32 first, u32 second) {
    constexpr int kAt = step * 16 * Tile::kRowBytes;
    half_[step][block][0] = lds_load_transposed_16<kAt>(first);
    half_[step][block][1] = lds_load_transposed_16<kAt + 8 * Tile::kRowBytes>(second);
    if constexpr (step + 1 < kSteps) read_steps<block, step + 1>(first, second);
  }

  u32 at_;
  Lanes2 half_[kSteps][kBlocks][2];
};
#else
template <int kHead, int kRows, Read> class TransposedReader {
 public:
  using Tile = TurnedTile<kHead, kRows>;
  static constexpr int kSteps = kRows / 16, kBlocks = kHead / 32, kParts = kSteps;

  JAXATOR_DEVICE explicit TransposedReader(u32 lane) : at_(Tile::read_offset(lane, 0)) {}

  template <int part> JAXATOR_DEVICE void read(Lds memory, u32 tile) {
#pragma unroll
    for (u32 block = 0; block < kBlocks; block++)
      fragment_[part][block] = lds_load<Vector>(memory, ((tile + at_) ^ part * 32) + block * 32 * Tile::kColumnBytes);
  }

  JAXATOR_DEVICE Vector operator()(int step, int block) const { return fragment_[step][block]; }

 private:
  u32 at_;
  Vector fragment_[kSteps][kBlocks];
};
#endif

}  // namespace jaxator::cdna::attention
