/// @file
/// Tiles in LDS that products stream: rows (keys, or queries) of kHead columns of 16 bits. A tile is read in two ways:
///   rows:       fragments of a product over the columns; lane l has row l % 32 and chunks 2 step + l / 32 of 8 columns
///   transposed: fragments of a product over the rows; lane l has column l % 32 and, of each 16 rows, the eight
///               4 h .. 4 h + 3, 8 + 4 h .. 8 + 4 h + 3 with h = l / 32: where an accumulator has them (see operand_of)
/// gfx950 transposes while it reads; on gfx942 a second, turned tile is written. No access has bank conflicts: proved below.
#pragma once

#include "src/ops/attention/cdna_common.h"
#include "src/tile/cdna/lds.h"

namespace jaxator::cdna::attention {

/// How a tile is read: chunk c of row r lies in slot c ^ key(r).
enum class Read { rows, transposed, both };

template <int kHead, int kRows, Read kRead, layout::Target kTarget = kLdsTarget> struct RowTile {
  static constexpr bool kTransposing = kTarget == layout::Target::gfx950;
  static_assert(kRead == Read::rows || kTransposing, "gfx942 reads transposed from a TurnedTile");
  static constexpr u32 kRowBytes = kHead * 2, kChunks = kRowBytes / 16, kBytes = kRows * kRowBytes, kSteps = kHead / 16;

  /// gfx950: rows 4 i .. 4 i + 3 of a transposing read want different groups of four chunks, the rows of a read by rows want
  /// different chunks. Two rows of 64 columns share a line of all banks. For transposed reads alone the key repeats after eight
  /// rows, so that one address does for all.
  static constexpr JAXATOR_DEVICE u32 key(u32 row) {
    if (!kTransposing) return row % 8 ^ row / 8 % 2 * 4;
    const u32 group = (kHead == 128 ? row % 4 : row / 2 % 2) * 4;
    return kRead == Read::transposed ? group : group | row / 4 % 4;
  }
  static constexpr JAXATOR_DEVICE u32 offset(u32 row, u32 chunk) { return row * kRowBytes + (chunk ^ key(row)) * 16; }

  /// Of the fragment by rows `step`, of rows 0 .. 31; the next 32 rows are kRowBytes * 32 further.
  static constexpr JAXATOR_DEVICE u32 row_offset(u32 lane, u32 step) { return offset(lane % 32, 2 * step + lane / 32); }

  /// gfx950: of the transposed fragment of columns 32 block .. 32 block + 31 and rows 0 .. 15, in two reads: the second one's
  /// rows are 8 further. The next 16 rows are kRowBytes * 16 further.
  static constexpr JAXATOR_DEVICE u32 transposed_offset(u32 lane, u32 block, u32 second) {
    const u32 row = lane / 32 * 4 + lane % 16 / 4 + second * 8;
    return offset(row, block * 4 + lane / 16 % 2 * 2 + lane % 4 / 2) + lane % 2 * 8;
  }

  /// transposed_offset(.., 1) from transposed_offset(.., 0).
  static constexpr JAXATOR_DEVICE u32 second_eight(u32 offset) {
    return (kRead == Read::transposed ? offset : offset ^ 32) + 8 * kRowBytes;
  }

  /// Also counts addresses that do not follow from the first one as readers take them.
  static constexpr int conflicts() {
    int sum = 0;
    for (u32 l = 0; l < 64; l++) {
      for (u32 step = 0; step < kSteps; step++) sum += row_offset(l, step) != (row_offset(l, 0) ^ step * 32);
      for (u32 block = 0; block < kHead / 32 && kRead != Read::rows; block++) {
        const u32 first = transposed_offset(l, 0, 0) ^ block * 64;
        sum += transposed_offset(l, block, 0) != first || transposed_offset(l, block, 1) != second_eight(first);
      }
    }
    for (u32 step = 0; step < kSteps && kRead != Read::transposed; step++)
      sum += lds_conflicts(16, layout::Direction::read, [=](u32 l) { return row_offset(l, step); }, kTarget);
    for (u32 block = 0; block < 2 * kHead / 32 && kRead != Read::rows; block++)
      sum +=
          lds_conflicts(8, layout::Direction::read, [=](u32 l) { return transposed_offset(l, block / 2, block % 2); }, kTarget);
    return sum;
  }
};
static_assert(RowTile<128, 64, Read::both, layout::Target::gfx950>::conflicts() == 0);
static_assert(RowTile<128, 64, Read::transposed, layout::Target::gfx950>::conflicts() == 0);
static_assert(RowTile<64, 64, Read::both, layout::Target::gfx950>::conflicts() == 0);
static_assert(RowTile<64, 64, Read::transposed, layout::Target::gfx950>::conflicts() == 0);
static_assert(RowTile<128, 64, Read::rows, layout::Target::gfx942>::conflicts() == 0);
static_assert(RowTile<64, 64, Read::rows, layout::Target::gfx942>::conflicts() == 0);

/// gfx942: a column of kRows rows in a run. A lane has four columns of four rows of global memory, turns them in registers and
/// writes four times 8 bytes. kRows * kHead / 16 threads fill a tile: those of `kWavesOfTile` waves.
template <int kHead, int kRows> struct TurnedTile {
  static constexpr u32 kColumnBytes = kRows * 2, kChunks = kColumnBytes / 16, kBytes = kHead * kColumnBytes, kSteps = kRows / 16;
  static constexpr u32 kWavesOfTile = kRows * kHead / 16 / 64;

  /// Columns d and d + 4 share a line of all banks where a column has 64 bytes.
  static constexpr JAXATOR_DEVICE u32 place(u32 column) {
    return kRows == 64 ? column : column / 8 * 8 + column % 4 * 2 + column / 4 % 2;
  }
  static constexpr JAXATOR_DEVICE u32 offset(u32 column, u32 chunk) {
    const u32 key = column % 4 ^ (kRows == 64 ? column / 4 : column / 8) % kChunks;
    return place(column) * kColumnBytes + (chunk ^ key) * 16;
  }

  /// Rows 16 step .. 16 step + 15 of columns 0 .. 31; the next 32 columns are kColumnBytes * 32 further.
  static constexpr JAXATOR_DEVICE u32 read_offset(u32 lane, u32 step) { return offset(lane % 32, 2 * step + lane / 32); }

  /// The first of the four rows and of the four columns of a thread.
  static constexpr JAXATOR_DEVICE u32 row_of(u32 lane, u32 wave) {
    const u32 rest = (wave * 4 + lane / 16) / (kHead / 32);
    return (rest % 2 + lane / 8 % 2 * 2 + rest / 2 * 4) * 4;
  }
  static constexpr JAXATOR_DEVICE u32 column_of(u32 lane, u32 wave) {
    return lane % 8 * 4 + (wave * 4 + lane / 16) % (kHead / 32) * 32;
  }
  /// Of the thread's column `i` of its four.
  static constexpr JAXATOR_DEVICE u32 write_offset(u32 lane, u32 wave, u32 i) {
    const u32 quad = row_of(lane, wave) / 4;
    return offset(column_of(lane, wave) + i, quad / 4 * 2 + quad % 2) + quad / 2 % 2 * 8;
  }

  /// write_offset(.., i) from write_offset(.., 0).
  static constexpr JAXATOR_DEVICE u32 next_column(u32 offset, u32 i) { return (offset ^ i * 16) + i * 128; }

  static constexpr int conflicts() {
    constexpr layout::Target kTarget = layout::Target::gfx942;
    int sum = 0;
    for (u32 l = 0; l < 64; l++) {
      for (u32 i = 0; i < 4 * kWavesOfTile; i++)
        sum += write_offset(l, i / 4, i % 4) != next_column(write_offset(l, i / 4, 0), i % 4);
      for (u32 step = 0; step < kSteps; step++) sum += read_offset(l, step) != (read_offset(l, 0) ^ step * 32);
    }
    for (u32 step = 0; step < kSteps; step++)
      sum += lds_conflicts(16, layout::Direction::read, [=](u32 l) { return read_offset(l, step); }, kTarget);
    for (u32 i = 0; i < 4 * kWavesOfTile; i++)
      sum += lds_conflicts(8, layout::Direction::write, [=](u32 l) { return write_offset(l, i / 4, i % 4); }, kTarget);
    return sum;
  }
};
/// gfx942: the same four rows of four columns as they are, to a RowTile: of the thread's row i, `offset` follows from that of its
/// row 0, since keys of rows differ in their lowest two bits alone.
template <int kHead, int kRows> struct QuadRows {
  using Tile = RowTile<kHead, kRows, Read::rows, layout::Target::gfx942>;
  using Quad = TurnedTile<kHead, kRows>;

  static constexpr JAXATOR_DEVICE u32 write_offset(u32 lane, u32 wave, u32 i) {
    const u32 column = Quad::column_of(lane, wave);
    return Tile::offset(Quad::row_of(lane, wave) + i, column / 8) + column % 8 * 2;
  }
  static constexpr JAXATOR_DEVICE u32 next_row(u32 offset, u32 i) { return (offset ^ i * 16) + i * Tile::kRowBytes; }

  static constexpr int conflicts() {
    int sum = 0;
    for (u32 i = 0; i < 4 * Quad::kWavesOfTile; i++) {
      for (u32 l = 0; l < 64; l++) sum += write_offset(l, i / 4, i % 4) != next_row(write_offset(l, i / 4, 0), i % 4);
      sum += lds_conflicts(
          8, layout::Direction::write, [=](u32 l) { return write_offset(l, i / 4, i % 4); }, layout::Target::gfx942);
    }
    return sum;
  }
};
static_assert(QuadRows<128, 32>::conflicts() == 0);
static_assert(QuadRows<64, 64>::conflicts() == 0);

static_assert(TurnedTile<128, 64>::conflicts() == 0);
static_assert(TurnedTile<64, 64>::conflicts() == 0);
static_assert(TurnedTile<128, 32>::conflicts() == 0);

/// Four rows of four 16-bit elements become four columns.
JAXATOR_DEVICE void turn(const Lanes2 (&rows)[4], Lanes2 (&columns)[4]) {
  constexpr u32 kLow = 0x05040100, kHigh = 0x07060302;  // halves of two words: (second, first)
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const u32 halves = i % 2 == 0 ? kLow : kHigh;
    columns[i] = Lanes2{__builtin_amdgcn_perm(rows[1][i / 2], rows[0][i / 2], halves),
                        __builtin_amdgcn_perm(rows[3][i / 2], rows[2][i / 2], halves)};
  }
}

}  // namespace jaxator::cdna::attention
