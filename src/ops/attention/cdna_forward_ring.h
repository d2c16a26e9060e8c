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

  JAXATOR_DEVICE static u32 key_tile(int i) { return i % kStages * KeyTile::kBytes; }
  JAXATOR_DEVICE static u32 value_tile(int i) { return kStages * KeyTile::kBytes + i % kStages * ValueTile::kBytes; }

  JAXATOR_DEVICE void start() {
#pragma unroll
    for (int i = 0; i < kStages - 1; i++) aim(), fetch(i);
    aim();
    order();
    wait<0>();
  }
  JAXATOR_DEVICE void before_softmax(int) {}
  JAXATOR_DEVICE void after_softmax(int) {}
  JAXATOR_DEVICE void before_products(int i) { fetch(i + kStages - 1); }
  JAXATOR_DEVICE void between_products(int) {}
  /// Between two products fit about as many scalar instructions as one stream needs.
  JAXATOR_DEVICE void within_products(int part) {
    order();
    if (part == 0) key_feed_.aim(cursor_);
    if (part == 1) value_feed_.aim(cursor_), cursor_.step();
    order();
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
/// Two buffers of each, all 64 KiB. A tile is loaded to registers one phase before it is stored: V(i + 1) is stored in the
/// softmax of tile i and K(i + 2) between its products; in both phases, of both halves of the block, nothing reads those buffers.
/// Values of padding are told by negative ids.
template <int kHead, Dead kDead> class ForwardRing {
 public:
  using KeyTile = RowTile<kHead, kForwardKeys, Read::rows>;
  using ValueTile = TurnedTile<kHead, kForwardKeys>;
  using ValueReader = TransposedReader<kHead, kForwardKeys, Read::transposed>;
  static constexpr int kStages = 2;
  static constexpr u32 kBytes = kStages * (KeyTile::kBytes + ValueTile::kBytes);

  JAXATOR_DEVICE ForwardRing(Lds memory, const Rows& k, const Rows& v, RowMarks<kDead> ids, const RowRun& keys, u32 lane,
                             u32 wave)
      : memory_(memory),
        has_values_(wave < ValueTile::kWavesOfTile),
        key_feed_(k, keys, lane, wave),
        value_cursor_(keys),
        value_feed_(v, keys, 0, lane, wave, ids) {}

  JAXATOR_DEVICE static u32 key_tile(int i) { return i % kStages * KeyTile::kBytes; }
  JAXATOR_DEVICE static u32 value_tile(int i) { return kStages * KeyTile::kBytes + i % kStages * ValueTile::kBytes; }

  JAXATOR_DEVICE void start() {
#pragma unroll
    for (int i = 0; i < kStages; i++) {
      load_keys();
      key_feed_.store(memory_ + key_tile(i));
    }
    aim_values(), load_values();
    store_values(0);
    aim_values(), load_values();
    order();
    wait<63, 0>();
  }
  JAXATOR_DEVICE void before_softmax(int) {
    load_keys();
    aim_values();
  }
  JAXATOR_DEVICE void after_softmax(int i) { store_values(i + 1); }
  JAXATOR_DEVICE void before_products(int) { load_values(); }
  JAXATOR_DEVICE void between_products(int i) { key_feed_.store(memory_ + key_tile(i)); }
  JAXATOR_DEVICE void within_products(int) {}
  JAXATOR_DEVICE void after_products() { wait<63, 0>(); }

 private:
  /// Known at compile time where all waves do: a branch would end a block of scheduled code.
  JAXATOR_DEVICE bool has_values() const { return ValueTile::kWavesOfTile == kWaves || has_values_; }

  JAXATOR_DEVICE void load_keys() { key_feed_.aim(), key_feed_.load(); }
  JAXATOR_DEVICE void aim_values() { value_feed_.aim(value_cursor_), value_cursor_.step(); }
  JAXATOR_DEVICE void load_values() {
    if (has_values()) value_feed_.load();
  }
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
