/// @file
/// The ring of tiles of the backward pass. A kernel streams rows of two arrays, `first` and `second`, side by side: keys and
/// values for dq, queries and output gradients for dk and dv. Of tile i, the products between two phases of arithmetic read the
/// rows of tile i + 1; the arithmetic of tile i reads tile i transposed, and values of its rows.
#pragma once

#include "src/ops/attention/cdna_feed.h"
#include "src/ops/attention/cdna_fragments.h"

namespace jaxator::cdna::attention {

/// Which gradient a kernel makes.
enum class Gradient { query, key, value };

/// Rows of a tile. With 128 columns 32: on gfx942 three such tiles fit twice, and for dq and dk two products of 64 rows would not
/// fit in the registers beside two fixed operands.
template <int kHead, Gradient kGradient>
inline constexpr int kTileRows = kHead == 64 || (kGfx950 && kGradient == Gradient::value) ? 64 : 32;

/// Both values of the rows of a tile (BackwardParams), one after the other in LDS. The waves 0..3 have those of lse, the
/// waves 4..7 those of delta.
template <int kRows> class RowValueFeed {
 public:
  static constexpr u32 kBytes = 2 * kRows * 4;

  /// jump: bytes from one head to the next.
  JAXATOR_DEVICE RowValueFeed(const Rows& lse, const Rows& delta, const RowRun& run, u32 jump, u32 lane, u32 wave)
      : stream_(wave < kWaves / 2 ? lse : delta, run, jump), next_(lse.from(run.first, 0)) {
    // Lanes beyond those of a wave's rows do what others do: less than a branch.
    const u32 row = wave % 4 * (kRows / 4) + lane % (kRows / 4);
    from_ = row * 4, to_ = (wave / 4 * kRows + row) * 4;
  }

  template <class Cursor> JAXATOR_DEVICE void aim(const Cursor& cursor) { next_ = stream_.next(cursor.rows()); }
  JAXATOR_DEVICE void next_head() { stream_.next_head(); }
  JAXATOR_DEVICE void load() { value_ = next_.load<float>(from_); }
  JAXATOR_DEVICE void store(Lds tile) const { lds_store(tile, to_, value_); }

 private:
  RowStream<kRows> stream_;
  u32 from_, to_;
  Buffer next_;
  float value_;
};

/// For dq there are none: its rows are keys.
struct NoRowValues {
  static constexpr u32 kBytes = 0;
  template <class Cursor> JAXATOR_DEVICE void aim(const Cursor&) {}
  JAXATOR_DEVICE void next_head() {}
  JAXATOR_DEVICE void load() {}
  JAXATOR_DEVICE void store(Lds) const {}
};

inline constexpr int kValueStages = 4;

template <int kRows, Gradient kGradient> struct RowValuesOf {
  using Feed = RowValueFeed<kRows>;
};
template <int kRows> struct RowValuesOf<kRows, Gradient::query> {
  using Feed = NoRowValues;
};

#if defined(__gfx950__)
/// Four buffers, as in the forward pass.
template <int kHead, Gradient kGradient, Dead kDead> class BackwardRing {
 public:
  static constexpr int kRows = kTileRows<kHead, kGradient>, kStages = 4;
  static constexpr bool kTurnsSecond = kGradient == Gradient::value;
  using FirstTile = RowTile<kHead, kRows, kTurnsSecond ? Read::rows : Read::both>;
  using SecondTile = RowTile<kHead, kRows, kTurnsSecond ? Read::transposed : Read::rows>;
  using TurnedReader = TransposedReader<kHead, kRows, kTurnsSecond ? Read::transposed : Read::both>;
  using RowValues = typename RowValuesOf<kRows, kGradient>::Feed;

  JAXATOR_DEVICE static u32 first_tile(int i) { return i % kStages * FirstTile::kBytes; }
  JAXATOR_DEVICE static u32 second_tile(int i) { return kStages * FirstTile::kBytes + i % kStages * SecondTile::kBytes; }
  JAXATOR_DEVICE static u32 turned_tile(int i) { return kTurnsSecond ? second_tile(i) : first_tile(i); }
  JAXATOR_DEVICE static u32 row_values(int i) {
    return kStages * (FirstTile::kBytes + SecondTile::kBytes) + i % kValueStages * RowValues::kBytes;
  }
  static constexpr u32 kBytes = kStages * (FirstTile::kBytes + SecondTile::kBytes) + kValueStages * RowValues::kBytes;

  JAXATOR_DEVICE BackwardRing(Lds memory, const Rows& first, const Rows& second, const RowRun& run, RowMarks<kDead> marks,
                              const RowValues& values, u32 lane, u32 wave)
      : memory_(memory),
        cursor_(run),
        first_(first, run, first.bytes, lane, wave, marks),
        second_(second, run, second.bytes, lane, wave, marks),
        values_(values) {}

  JAXATOR_DEVICE void start() {
#pragma unroll
    for (int i = 0; i < kStages - 1; i++) {
      aim(0), aim(1), aim(2);
      fetch(i);
      values_.store(memory_ + row_values(i));
    }
    if (kAimsAhead) aim(0), aim(1), aim(2);
    order();
    wait<0, 0>();
  }
  /// The values that were loaded with the last tiles.
  JAXATOR_DEVICE void before_arithmetic(int i) { values_.store(memory_ + row_values(i + kStages - 2)); }
  JAXATOR_DEVICE void before_products(int i) {
    if (!kAimsAhead) aim(0), aim(1), aim(2);
    fetch(i + kStages - 1);
  }
  JAXATOR_DEVICE void between_products(int) {}
  /// Between two products fit about as many scalar instructions as one stream needs.
  JAXATOR_DEVICE void within_products(int part) {
    if (!kAimsAhead) return;
    order();
    aim(part);
    order();
  }
  JAXATOR_DEVICE void after_products() { wait<decltype(first_)::kLoads + decltype(second_)::kLoads>(); }

 private:
  /// Where each row is looked at there are too few scalar registers for it.
  static constexpr bool kAimsAhead = kDead == Dead::never;

  JAXATOR_DEVICE void aim(int part) {
    if (part == 0) first_.aim(cursor_);
    if (part == 1) second_.aim(cursor_);
    if (part == 2) {
      values_.aim(cursor_);
      if (cursor_.step()) first_.next_head(), second_.next_head(), values_.next_head();
    }
  }
  JAXATOR_DEVICE void fetch(int i) {
    values_.load();
    first_.fetch(memory_ + first_tile(i));
    second_.fetch(memory_ + second_tile(i));
  }

  Lds memory_;
  TileCursor<kRows, kGradient != Gradient::query> cursor_;
  Feed<FirstTile, kDead> first_;
  Feed<SecondTile, kDead> second_;
  RowValues values_;
};
#else
/// Two buffers. The waves 0..3 load tiles of the first array, the waves 4..7 of the second, four rows of four columns a lane. In
/// the arithmetic of tile i, tile i + 1 is stored turned and tile i + 2 is loaded; between the products after it, tile i + 2 is
/// stored as it is. In both phases, of both halves of the block, nothing reads those buffers.
template <int kHead, Gradient kGradient, Dead kDead> class BackwardRing {
 public:
  static constexpr int kRows = kTileRows<kHead, kGradient>, kStages = 2;
  static constexpr bool kTurnsSecond = kGradient == Gradient::value;
  using FirstTile = RowTile<kHead, kRows, Read::rows>;
  using TurnedReader = TransposedReader<kHead, kRows, Read::transposed>;
  using RowValues = typename RowValuesOf<kRows, kGradient>::Feed;

  JAXATOR_DEVICE static u32 first_tile(int i) { return i % kStages * kTileBytes; }
  JAXATOR_DEVICE static u32 turned_tile(int i) { return (kStages + i % kStages) * kTileBytes; }
  JAXATOR_DEVICE static u32 second_tile(int i) { return (2 * kStages + i % kStages) * kTileBytes; }
  JAXATOR_DEVICE static u32 row_values(int i) { return kTiles * kStages * kTileBytes + i % kValueStages * RowValues::kBytes; }
  static constexpr u32 kTileBytes = FirstTile::kBytes;
  static constexpr u32 kTiles = kTurnsSecond ? 2 : 3;
  static constexpr u32 kBytes = kStages * kTiles * kTileBytes + kValueStages * RowValues::kBytes;

  JAXATOR_DEVICE BackwardRing(Lds memory, const Rows& first, const Rows& second, const RowRun& run, RowMarks<kDead> marks,
                              const RowValues& values, u32 lane, u32 wave)
      : memory_(memory),
        has_first_(wave < kWaves / 2),
        cursor_(run),
        rows_(has_first_ ? first : second, run, (has_first_ ? first : second).bytes, lane, wave % 4, marks),
        values_(values) {}

  JAXATOR_DEVICE void start() {
    load();
    store_rows(0), store_turned(0);
    load();
    store_rows(1);
    order();
    wait<63, 0>();
  }
  JAXATOR_DEVICE void before_arithmetic(int i) {
    store_turned(i + 1);
    order();
    load();
  }
  JAXATOR_DEVICE void before_products(int) {}
  JAXATOR_DEVICE void between_products(int i) { store_rows(i + 2); }
  JAXATOR_DEVICE void within_products(int) {}
  JAXATOR_DEVICE void after_products() { wait<63, 0>(); }

 private:
  static_assert(TurnedTile<kHead, kRows>::kWavesOfTile == kWaves / 2);

  JAXATOR_DEVICE void load() {
    rows_.aim(cursor_), values_.aim(cursor_);
    if (cursor_.step()) rows_.next_head(), values_.next_head();
    rows_.load(), values_.load();
  }
  /// An array that is only read transposed has no tile of rows.
  JAXATOR_DEVICE void store_rows(int i) const {
    values_.store(memory_ + row_values(i));
    if (kTurnsSecond && !has_first_) return;
    rows_.store_rows(memory_ + (has_first_ ? first_tile(i) : second_tile(i)));
  }
  JAXATOR_DEVICE void store_turned(int i) const {
    if (kTurnsSecond != has_first_) rows_.store_turned(memory_ + turned_tile(i));
  }

  Lds memory_;
  bool has_first_;
  TileCursor<kRows, kGradient != Gradient::query> cursor_;
  QuadFeed<kHead, kRows, kDead> rows_;
  RowValues values_;
};
#endif

}  // namespace jaxator::cdna::attention
