/// @file
/// From global memory to tiles in LDS, tile after tile, by all waves of a block. gfx950 copies rows straight to LDS. gfx942 loads
/// them to registers and stores them one phase later, by when they have arrived.
#pragma once

#include "src/ops/attention/cdna_tile.h"

namespace jaxator::cdna::attention {

/// Which rows of a run hold numbers: others may hold NaN and are not read. They are told by one word for each row of an array.
enum class Dead { never, negative, infinite };

template <Dead kDead> struct RowMarks {
  const int JAXATOR_GLOBAL* words = nullptr;  // of the run's first head; null: all rows hold numbers
  int end = 0;                                // of the run
  int jump = 0;                               // words from one head to the next

  /// The row that is `left` rows before the end. Without a branch: beyond the end, and without words, zeros are read.
  JAXATOR_DEVICE bool usable(int left, int head) const {
    if constexpr (kDead == Dead::never) return true;
    const Buffer buffer(words + static_cast<i64>(head) * jump, words == nullptr ? 0 : static_cast<u64>(end) * 4);
    const int word = buffer.load<int>(static_cast<u32>(end - left) * 4);
    return kDead == Dead::negative ? word >= 0 : word != bits_as<int>(__builtin_inff());
  }
};

#if defined(__gfx950__)
template <class Tile, Dead kDead = Dead::never> class Feed {
 public:
  static constexpr int kRows = Tile::kBytes / Tile::kRowBytes;
  static constexpr int kLoads = Tile::kBytes / (kWaves * 1024);  // of a lane

  JAXATOR_DEVICE Feed(const Rows& rows, const RowRun& run, u32 jump, u32 lane, u32 wave, RowMarks<kDead> marks = {})
      : stream_(rows, run, jump),
        marks_(marks),
        row_(wave * (1024 / Tile::kRowBytes) + lane / Tile::kChunks),
        wave_(wave),
        next_(rows.from(run.first, 0)) {
#pragma unroll
    for (u32 j = 0; j < kLoads; j++) offset_[j] = rows.offset(row(j), lane % Tile::kChunks ^ Tile::key(row(j)));
  }

  /// Where the cursor's tile is: apart from `fetch`, because it would hold up a phase of matrix instructions.
  template <class Cursor> JAXATOR_DEVICE void aim(const Cursor& cursor) {
    next_ = stream_.next(cursor.rows()), left_ = cursor.left(), head_ = cursor.head();
  }
  JAXATOR_DEVICE void next_head() { stream_.next_head(); }

  /// Not waited for.
  JAXATOR_DEVICE void fetch(Lds tile) const {
#pragma unroll
    for (u32 j = 0; j < kLoads; j++) {
      const u32 offset = marks_.usable(left_ - static_cast<int>(row(j)), head_) ? offset_[j] : kNowhere;
      next_.load_to_lds(tile + wave_ * 1024 + j * kWaves * 1024, offset);
    }
  }

 private:
  JAXATOR_DEVICE u32 row(u32 j) const { return row_ + j * (kWaves * 1024 / Tile::kRowBytes); }

  RowStream<kRows> stream_;
  RowMarks<kDead> marks_;
  u32 row_, wave_, offset_[kLoads];
  Buffer next_;
  int left_ = 0, head_ = 0;
};
#else
template <class Tile> class Feed {
 public:
  static constexpr int kRows = Tile::kBytes / Tile::kRowBytes;
  static constexpr int kLoads = Tile::kBytes / (kWaves * 1024);

  JAXATOR_DEVICE Feed(const Rows& rows, const RowRun& run, u32 lane, u32 wave)
      : cursor_(run), stream_(rows, run), next_(rows.from(run.first, 0)) {
    const u32 row = wave * (1024 / Tile::kRowBytes) + lane / Tile::kChunks, chunk = lane % Tile::kChunks;
    to_ = Tile::offset(row, chunk);
#pragma unroll
    for (u32 j = 0; j < kLoads; j++) from_[j] = rows.offset(row + j * kRowsOfLoad, chunk);
  }

  JAXATOR_DEVICE void aim() {
    next_ = stream_.next(cursor_.rows());
    cursor_.step();
  }
  JAXATOR_DEVICE void load() {
#pragma unroll
    for (int j = 0; j < kLoads; j++) data_[j] = next_.load<Vector>(from_[j]);
  }
  JAXATOR_DEVICE void store(Lds tile) const {
#pragma unroll
    for (int j = 0; j < kLoads; j++) lds_store(tile, to_ + j * kRowsOfLoad * Tile::kRowBytes, data_[j]);
  }

 private:
  static constexpr u32 kRowsOfLoad = kWaves * 1024 / Tile::kRowBytes;

  TileCursor<kRows> cursor_;
  RowStream<kRows> stream_;
  u32 to_, from_[kLoads];
  Buffer next_;
  Vector data_[kLoads];
};

/// Four rows of four columns a lane, by kWavesOfTile waves: to a TurnedTile, or as they are.
template <int kHead, int kRows, Dead kDead> class QuadFeed {
 public:
  using Turned = TurnedTile<kHead, kRows>;
  using AsTheyAre = QuadRows<kHead, kRows>;

  /// wave: of those that take part.
  JAXATOR_DEVICE QuadFeed(const Rows& rows, const RowRun& run, u32 jump, u32 lane, u32 wave, RowMarks<kDead> marks)
      : stream_(rows, run, jump),
        marks_(marks),
        row_(Turned::row_of(lane, wave)),
        stride_(rows.stride),
        to_turned_(Turned::write_offset(lane, wave, 0)),
        to_rows_(AsTheyAre::write_offset(lane, wave, 0)),
        next_(rows.from(run.first, 0)) {
    const u32 column = Turned::column_of(lane, wave);
    from_ = rows.offset(row_, column / 8) + column % 8 * 2;
  }

  template <class Cursor> JAXATOR_DEVICE void aim(const Cursor& cursor) {
    next_ = stream_.next(cursor.rows()), left_ = cursor.left(), head_ = cursor.head();
  }
  JAXATOR_DEVICE void next_head() { stream_.next_head(); }

  JAXATOR_DEVICE void load() {
    // 128 columns need all registers: four offsets are made anew for each tile. With tiles of 32 rows a copy needs one less.
    u32 from = from_, stride = stride_;
    if constexpr (kHead > 64 && kRows > 32) pin_shared(stride);
    if constexpr (kHead > 64 && kRows <= 32) pin(from);
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
      const bool usable = marks_.usable(left_ - static_cast<int>(row_ + i), head_);
      data_[i] = next_.load<Lanes2>(usable ? from + i * stride : kNowhere);
    }
  }
  JAXATOR_DEVICE void store_turned(Lds tile) const {
    Lanes2 columns[4];
    turn(data_, columns);
#pragma unroll
    for (u32 i = 0; i < 4; i++) lds_store(tile, Turned::next_column(to_turned_, i), columns[i]);
  }
  /// The same in two steps.
  JAXATOR_DEVICE void turn_rows() {
    Lanes2 columns[4];
    turn(data_, columns);
#pragma unroll
    for (u32 i = 0; i < 4; i++) data_[i] = columns[i], pin(data_[i]);
  }
  JAXATOR_DEVICE void store_columns(Lds tile) const {
#pragma unroll
    for (u32 i = 0; i < 4; i++) lds_store(tile, Turned::next_column(to_turned_, i), data_[i]);
  }
  JAXATOR_DEVICE void store_rows(Lds tile) const {
#pragma unroll
    for (u32 i = 0; i < 4; i++) lds_store(tile, AsTheyAre::next_row(to_rows_, i), data_[i]);
  }

 private:
  RowStream<kRows> stream_;
  RowMarks<kDead> marks_;
  u32 row_, stride_, from_, to_turned_, to_rows_;
  Buffer next_;
  int left_ = 0, head_ = 0;
  Lanes2 data_[4];
};
#endif

}  // namespace jaxator::cdna::attention
