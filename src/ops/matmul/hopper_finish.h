/// @file
/// The end of a tile: chunk by chunk from the accumulators, or where the steps were split over the blocks of a cluster, from
/// their partial sums in shared memory, in a fixed order; or later, while the next tile is multiplied.
#pragma once

#include "src/ops/matmul/hopper_epilogue.h"
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

/// This block's sums to where the kernel matmul_sum reads them.
template <class S> JAXATOR_DEVICE void leave_part(const float (&acc)[S::kRegisters], const MatmulParams& p, u32 thread_of_both,
                                                  u32 unit) {
  float* to = p.partials + static_cast<i64>(unit) * (S::kRegisters * kGroups * kGroupThreads) + thread_of_both * 4;
#pragma unroll
  for (int i = 0; i < S::kRegisters / 4; i++) {
    const float v[4] = {acc[4 * i], acc[4 * i + 1], acc[4 * i + 2], acc[4 * i + 3]};
    store(to + i * (kGroups * kGroupThreads * 4), pack<float>(v));
  }
}

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
  const u32 both = group * kGroupThreads + staging.thread, mine = shared + both * 16;
  if (p.parts > 1) return leave_part<S>(acc, p, both, tile.unit);
  if (p.splits > 1) {
    publish(acc, mine);
    cluster_sync();
  }
  const int share = S::kRegisters / 4 / p.splits, first = static_cast<int>(place.split) * share, end = first + share;
#pragma unroll 1
  for (int at = first; at < end; at += 8) {
    float x[32];
    if (p.splits > 1)
      sum_splits(x, mine, at, end, place, p);
    else
      take_chunk(x, acc, at);
    finish_chunk<typename S::T>(x, p, {tile.row, tile.column + 8 * at, tile.batch, 8 * (end - at)}, maps, staging);
  }
  if (p.splits > 1) {
    fence_shared_for_async();  // the copy engine writes the next tile's stages over the sums
    cluster_sync();
  }
}

/// Whether nothing but a bias and rounding follow the product, so that tiles may be stored later.
JAXATOR_DEVICE bool may_defer(const MatmulParams& p) { return Wanted(p).only_bias() && p.splits == 1 && p.parts == 1; }

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
