/// @file
/// The ring of key and value tiles of the forward pass, and when each is filled. The halves of a block alternate between two
/// phases: in one a half does the softmax of tile i and reads V(i), in the other it multiplies and reads K(i + 1), while the
/// other half is one phase behind.
#pragma once

#include "src/ops/attention/cdna_feed.h"
#include "src/ops/attention/cdna_fragments.h"

namespace jaxator::cdna::attention {

#if defined(__gfx950__)
/// Four buffers of each: what is fetched while tile i is multiplied is needed three tiles later, so 64 KiB are under way.
/// Values of padding are told by negative ids.
template <int kHead, Dead kDead> class ForwardRing {
 public:
  using KeyTile = RowTile<kHead, kForwardKeys, Read::rows>;
  using ValueTile = RowTile<kHead, kForwardKeys, Read::transposed>;
  using ValueReader = TransposedReader<kHead, kForwardKeys, Read::transposed>;
  static constexpr int kStages = 4;
  static constexpr u32 kBytes = kStages * (KeyTile::kBytes + ValueTile::kBytes);

  JAXATOR_DEVICE ForwardRing(Lds memory, const Rows& k, const Rows& v, RowMarks<kDead> ids, const RowRun& keys, u32 lane,
                             u32 wave)
      : memory_(memory), cursor_(keys), key_feed_(k, keys, 0, lane, wave), value_feed_(v, keys, 0, lane, wave, ids) {}

  JAXATOR_DEVICE static u32 key_tile(u32 i) { return i % kStages * KeyTile::kBytes; }
  JAXATOR_DEVICE static u32 value_tile(u32 i) { return kStages * KeyTile::kBytes + i % kStages * ValueTile::kBytes; }

  JAXATOR_DEVICE void start() {
#pragma unroll
    for (int i = 0; i < kStages - 1; i++) aim(), fetch(i);
    order();
    wait<0>();
  }
  JAXATOR_DEVICE void before_softmax(int) {}
  JAXATOR_DEVICE void after_softmax(int) {}
  /// Between two products fit about as many scalar instructions as one stream needs.
  template <int product> JAXATOR_DEVICE void beside_values(int) {
    if constexpr (product == 3) value_feed_.aim(cursor_);
    if constexpr (product == 5) key_feed_.aim(cursor_), cursor_.step();
  }
  /// Late: fetches are written to LDS too, and a phase begins with reads.
  template <int product> JAXATOR_DEVICE void beside_keys(int i) {
    if constexpr (product == 3) value_feed_.fetch(memory_ + value_tile(i + kStages - 1));
    if constexpr (product == 5) key_feed_.fetch(memory_ + key_tile(i + kStages - 1));
  }
  /// Everything but the last tiles has arrived.
  JAXATOR_DEVICE void after_products() { wait<Feed<KeyTile>::kLoads + Feed<ValueTile>::kLoads>(); }

 private:
  JAXATOR_DEVICE void aim() { key_feed_.aim(cursor_), value_feed_.aim(cursor_), cursor_.step(); }
  JAXATOR_DEVICE void fetch(int i) {
    value_feed_.fetch(memory_ + value_tile(i));
    key_feed_.fetch(memory_ + key_tile(i));
  }

  Lds memory_;
  TileCursor<kForwardKeys> cursor_;
  Feed<KeyTile> key_feed_;
  Feed<ValueTile, kDead> value_feed_;
};
#else
/// Two buffers of each, of 64 KiB at most. Head size 128: a tile is loaded to registers one phase before it is stored, V(i + 1)
/// in the softmax of tile i and K(i + 2) after the last product with V(i). Head size 64: half of the waves have values, so both
/// wait for the products, whose phase has room for them, and are loaded a tile ahead. Nothing reads those buffers in these phases
/// of both halves of the block. Values of padding are told by negative ids.
template <int kHead, Dead kDead> class ForwardRing {
 public:
  using KeyTile = RowTile<kHead, kForwardKeys, Read::rows>;
  using ValueTile = TurnedTile<kHead, kForwardKeys>;
  using ValueReader = TransposedReader<kHead, kForwardKeys, Read::transposed>;
  static constexpr int kStages = 2;
  static constexpr u32 kBytes = kStages * (KeyTile::kBytes + ValueTile::kBytes);
  static constexpr bool kFillsBesideProducts = ValueTile::kWavesOfTile * 2 == kWaves;

  JAXATOR_DEVICE ForwardRing(Lds memory, const Rows& k, const Rows& v, RowMarks<kDead> ids, const RowRun& keys, u32 lane,
                             u32 wave)
      : memory_(memory),
        has_values_(wave < ValueTile::kWavesOfTile),
        key_feed_(k, keys, lane, wave),
        value_cursor_(keys),
        value_feed_(v, keys, 0, lane, wave, ids) {}

  JAXATOR_DEVICE static u32 key_tile(u32 i) { return i % kStages * KeyTile::kBytes; }
  JAXATOR_DEVICE static u32 value_tile(u32 i) { return kStages * KeyTile::kBytes + i % kStages * ValueTile::kBytes; }

  JAXATOR_DEVICE void start() {
#pragma unroll
    for (int i = 0; i < kStages; i++) {
      load_keys();
      key_feed_.store(memory_ + key_tile(i));
    }
    aim_values(), load_values();
    store_values(0);
    aim_values(), load_values();
    if constexpr (kFillsBesideProducts) load_keys();
    order();
    wait<63, 0>();
  }
  JAXATOR_DEVICE void before_softmax(int) {
    if constexpr (!kFillsBesideProducts) load_keys(), aim_values();
  }
  JAXATOR_DEVICE void after_softmax(int i) {
    if constexpr (!kFillsBesideProducts) store_values(i + 1);
  }
  template <int product> JAXATOR_DEVICE void beside_values(int i) {
    if constexpr (kFillsBesideProducts) {
      if constexpr (product == 0) value_feed_.turn_rows();
      if constexpr (product == 1)
        if (has_values()) value_feed_.store_columns(memory_ + value_tile(i + 1));
      if constexpr (product == 2) key_feed_.store(memory_ + key_tile(i));
      if constexpr (product == 3) aim_values();
      if constexpr (product == 4) load_values();
      if constexpr (product == 5) key_feed_.aim();
      if constexpr (product == 6) key_feed_.load();
    } else {
      if constexpr (product == 0) load_values();
      if constexpr (product == kForwardKeys / 16 * kHead / 32 - 1) key_feed_.store(memory_ + key_tile(i));
    }
  }
  template <int product> JAXATOR_DEVICE void beside_keys(int) {}
  JAXATOR_DEVICE void after_products() { wait<63, 0>(); }

 private:
  /// Known at compile time where all waves do. What others load lies beyond the tile's rows: zeros, without a branch.
  JAXATOR_DEVICE bool has_values() const { return ValueTile::kWavesOfTile == kWaves || has_values_; }

  JAXATOR_DEVICE void load_keys() { key_feed_.aim(), key_feed_.load(); }
  JAXATOR_DEVICE void aim_values() { value_feed_.aim(value_cursor_), value_cursor_.step(); }
  JAXATOR_DEVICE void load_values() { value_feed_.load(); }
  JAXATOR_DEVICE void store_values(int i) const {
    if (has_values()) value_feed_.store_turned(memory_ + value_tile(i));
  }

  Lds memory_;
  bool has_values_;
  Feed<KeyTile> key_feed_;
  TileCursor<kForwardKeys> value_cursor_;
  QuadFeed<kHead, kForwardKeys, kDead> value_feed_;
};
#endif

}  // namespace jaxator::cdna::attention
