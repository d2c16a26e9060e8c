/// @file
/// The end of a tile: chunk by chunk from the accumulators, or where the steps were split over the blocks of a cluster, from
/// their partial sums in shared memory, in a fixed order; or later, while the next tile is multiplied.
#pragma once

#include "src/ops/matmul/hopper_epilogue.h"
#include "src/tile/hopper/bulk.h"
#include "src/tile/hopper/cluster.h"

namespace jaxator::hopper {

inline constexpr u32 kVectorStride = kGroups * kGroupThreads * 16;

/// The sums of eight groups of eight columns from `group` on, the splits in ascending order; groups from `end` on are left.
JAXATOR_DEVICE void sum_splits(float (&x)[32], u32 mine, int group, int end, const ClusterPlace& place, const MatmulParams& p) {
#pragma unroll
  for (int i = 0; i < 32; i++) x[i] = 0;
#pragma unroll 1
  for (int split = 0; split < p.splits; split++) {
    const u32 from = address_in_block(mine, static_cast<u32>(split * p.pair) + place.neighbour);
#pragma unroll
    for (int i = 0; i < 8; i++) {
      if (group + i >= end) break;
      const Vector part = load_cluster_vector(from + static_cast<u32>(group + i) * kVectorStride);
#pragma unroll
      for (int e = 0; e < 4; e++) x[4 * i + e] += bits_as<float>(part.word[e]);
    }
  }
}

/// This block's partial sums to where the cluster reads them: the stages' shared memory, as [group of eight columns][thread of
/// both warpgroups].
template <int Registers> JAXATOR_DEVICE void publish(const float (&acc)[Registers], u32 mine) {
  named_sync<kGroups * kGroupThreads>(kAllGroupsBarrier);  // the other warpgroup has read its last stage
#pragma unroll
  for (int i = 0; i < Registers / 4; i++) {
    const float v[4] = {acc[4 * i], acc[4 * i + 1], acc[4 * i + 2], acc[4 * i + 3]};
    store_shared(mine + static_cast<u32>(i) * kVectorStride, pack<float>(v));
  }
}

/// A warpgroup's part of a tile that several ranges share. Warps whose rows do not exist leave and add nothing.
template <class S> struct SharedSums {
  static constexpr int kVectors = S::kRegisters / 4;
  static constexpr i64 kStride = kGroups * kGroupThreads * 4;  // from one eight columns to the next
  const MatmulParams& p;
  u32 neighbour, group, thread;
  bool exists;

  JAXATOR_DEVICE int* ready(int range) const {
    return p.ready + (range * p.pair + static_cast<int>(neighbour)) * static_cast<int>(kGroups) + group;
  }
  JAXATOR_DEVICE float* sums(int range) const {
    return p.partials + static_cast<i64>(range * p.pair + static_cast<int>(neighbour)) * (kVectors * kStride) +
           (group * kGroupThreads + thread) * 4;
  }
  JAXATOR_DEVICE void leave(const float (&acc)[S::kRegisters]) const {
    const int range = static_cast<int>(cluster_x());
    float* to = sums(range);
    if (exists)
#pragma unroll
      for (int i = 0; i < kVectors; i++) {
        const float v[4] = {acc[4 * i], acc[4 * i + 1], acc[4 * i + 2], acc[4 * i + 3]};
        store(to + i * kStride, pack<float>(v));
      }
    named_sync<kGroupThreads>(kFirstGroupBarrier + group);
    if (thread == 0) add_release(ready(range), 1);
  }
  /// Waits for the ranges before this one that have steps of the tile with the shared step `from`: how many there are.
  JAXATOR_DEVICE int wait(int from) const {
    int count = 0;
    for (int range = static_cast<int>(cluster_x()) - 1; stream_cut(p, range + 1) > from; range--, count++)
      while (thread == 0 && load_acquire(ready(range)) == 0) {
      }
    named_sync<kGroupThreads>(kFirstGroupBarrier + group);
    return exists ? count : 0;
  }
  /// x, a chunk that starts at a group of eight columns, += the sums of the `count` ranges before this one, nearest first.
  JAXATOR_DEVICE void add(float (&x)[32], int columns, int count) const {
#pragma unroll 1
    for (int i = 1; i <= count; i++) {
      const float* from = sums(static_cast<int>(cluster_x()) - i) + columns * kStride;
      Vector v[8];
#pragma unroll
      for (int j = 0; j < 8; j++) {
        v[j] = {};
        if (j < kVectors) v[j] = load_written_elsewhere(from + j * kStride);
      }
#pragma unroll
      for (int j = 0; j < 32; j++) x[j] += bits_as<float>(v[j / 4].word[j % 4]);
    }
  }
};

/// Accumulators of the chunk that starts at a group of eight columns. A switch, so that the epilogue's code, an activation's
/// polynomial for each of 32 values, exists once and not once for each chunk.
template <int Registers, int Chunk = 0> JAXATOR_DEVICE void take_chunk(float (&x)[32], const float (&acc)[Registers], int group) {
  if constexpr (Chunk + 1 < Registers / 32)
    if (group != 8 * Chunk) return take_chunk<Registers, Chunk + 1>(x, acc, group);
#pragma unroll
  for (int i = 0; i < 32; i++) x[i] = 32 * Chunk + i < Registers ? acc[32 * Chunk + i] : 0.0f;
}

/// Finishes the part of a tile that one warpgroup has, from `tile` on: all columns, or where the steps were split, this block's
/// share of them. Every thread of the cluster then takes part in the two cluster barriers, those that load too.
template <class S>
JAXATOR_DEVICE void finish(const float (&acc)[S::kRegisters], const MatmulParams& p, const TilePlace& tile,
                           const ResultMaps& maps, Staging& staging, u32 shared, u32 group, const ClusterPlace& place) {
  const bool exists = tile.row + static_cast<int>(staging.thread / 32 * 16) < p.m;
  const SharedSums<S> sums{p, place.neighbour, group, staging.thread, exists};
  if (tile.shared == kLeavesSums) return sums.leave(acc);
  const int others = tile.shared == kAlone ? 0 : sums.wait(tile.shared);
  const u32 mine = shared + (group * kGroupThreads + staging.thread) * 16;
  if (p.splits > 1) {
    publish(acc, mine);
    cluster_sync();
  }
  const int share = S::kRegisters / 4 / p.splits, first = static_cast<int>(place.split) * share, end = first + share;
  Vector residual[4] = {};
  const auto chunk_at = [&](int at) { return ChunkPlace{tile.row, tile.column + 8 * at, tile.batch, 8 * (end - at)}; };
  fetch_residual<typename S::T>(p, chunk_at(first), staging, residual);
#pragma unroll 1
  for (int at = first; at < end; at += 8) {
    float x[32];
    if (p.splits > 1)
      sum_splits(x, mine, at, end, place, p);
    else
      take_chunk(x, acc, at), sums.add(x, at, others);
    finish_chunk<typename S::T>(x, p, chunk_at(at), maps, staging, residual, [&] {
      if (at + 8 < end) fetch_residual<typename S::T>(p, chunk_at(at + 8), staging, residual);
    });
  }
  if (p.splits > 1) {
    fence_shared_for_async();  // the copy engine writes the next tile's stages over the sums
    cluster_sync();
  }
}

/// Whether nothing but a bias and rounding follow the product, so that tiles may be stored later.
JAXATOR_DEVICE bool may_defer(const MatmulParams& p) { return Wanted(p).only_bias() && p.splits == 1; }

/// A finished tile, rounded, that is stored chunk by chunk while the matrix unit has the next one.
template <class S> class Deferred {
  static constexpr int kChunks = S::kRegisters / 32;

 public:
  JAXATOR_DEVICE Deferred(Staging& staging, const ResultMaps& maps) : staging_(staging), maps_(maps) {}
  JAXATOR_DEVICE void take(const float (&acc)[S::kRegisters], const MatmulParams& p, const TilePlace& tile) {
#pragma unroll
    for (int chunk = 0; chunk < kChunks; chunk++) {
      float x[32];
#pragma unroll
      for (int i = 0; i < 32; i++) x[i] = acc[32 * chunk + i];
      if (p.bias != nullptr) add_bias(x, p, tile.batch, tile.column + 64 * chunk, staging_.thread);
#pragma unroll
      for (int i = 0; i < 16; i++) packed_[16 * chunk + i] = pack2<typename Stored<typename S::T>::type>(x[2 * i], x[2 * i + 1]);
    }
    tile_ = tile, full_ = true;
  }
  /// Chunk i, a constant after unrolling.
  JAXATOR_DEVICE void store(int i) {
    if (i >= kChunks || !full_) return;
    const u32 box = staging_.begin();
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
      const u32* v = packed_ + 16 * i + 2 * j;
      stmatrix(staging_.matrix_address(box, j), v[0], v[1], v[2], v[3]);
    }
    staging_.send(maps_.out, box, tile_.column + 64 * i, tile_.row, tile_.batch);
  }
  JAXATOR_DEVICE void store_all() {
#pragma unroll
    for (int i = 0; i < kChunks; i++) store(i);
  }

 private:
  Staging& staging_;
  const ResultMaps& maps_;
  u32 packed_[S::kRegisters / 2] = {};
  TilePlace tile_{};
  bool full_ = false;
};

}  // namespace jaxator::hopper
