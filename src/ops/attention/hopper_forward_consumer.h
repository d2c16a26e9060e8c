/// @file
/// A warpgroup of attention forward: the products and the softmax of 64 queries, tile by tile of keys, from the last to the
/// first.
#pragma once

#include "src/ops/attention/hopper_forward_pairs.h"
#include "src/ops/attention/hopper_forward_schedule.h"
#include "src/ops/attention/hopper_forward_shared.h"
#include "src/tile/hopper/wgmma.h"

namespace jaxator::hopper::attention {

/// One warpgroup. T: element type. Pairs: mask, bias and segments are read, and the scale may have any sign.
template <ForwardTile Tile, class T, bool Pairs> class ForwardConsumer {
 public:
  JAXATOR_DEVICE ForwardConsumer(const ForwardParams& params, const ForwardMaps& maps, ForwardShared<Tile> shared)
      : params_(params), maps_(maps), shared_(shared), group_(uniform(thread_x() / 128 - 1)), thread_(thread_x() % 128) {}

  JAXATOR_DEVICE void run() {
    ForwardSchedule schedule(params_);
    while (schedule.next(at_)) {
      Out out;
      clear(out);
      SoftmaxRows rows;
      rows.clear();
      barrier_wait(shared_.query_full(query_stage()), query_parity());
      visit(out, rows);
      finish(out, rows);
      items_++;
    }
    if (thread_ == 0) tma_wait<0>();
  }

 private:
  static constexpr int kGroupKeys = Tile.keys * 128;  // bytes between 64-column groups
  using Logits = float[Tile.keys / 2];
  using Operand = u32[Tile.keys / 4];
  using Out = float[Tile.value_size / 2];

  // Few registers are left beside the accumulators, so positions follow from two counters, and what is needed once an item is
  // computed again from at_.
  JAXATOR_DEVICE u32 query_stage() const { return items_ % Tile.query_stages; }
  JAXATOR_DEVICE u32 query_parity() const { return items_ / Tile.query_stages % 2; }
  JAXATOR_DEVICE static u32 stage(u32 visited) { return visited % Tile.key_stages; }
  JAXATOR_DEVICE static u32 parity(u32 visited) { return visited / Tile.key_stages % 2; }

  /// Sums over the keys that this warpgroup's queries see. Nothing if there are none.
  JAXATOR_DEVICE void visit(Out& out, SoftmaxRows& rows) {
    const Visibility& v = params_.visibility;
    const ForwardItem item = item_at<Tile.queries>(params_, at_);
    const Limits limits = uniform_limits_of(v, item.batch);
    const int first = item.query + static_cast<int>(group_) * 64, last = smaller(first + 64, limits.queries) - 1;
    const Interval tiles = key_tiles<Tile.queries, Tile.keys>(v, limits, item.query);
    const Interval mine = key_tiles<64, Tile.keys>(v, limits, first);
    // Tiles that every query of this warpgroup sees whole.
    inner_ = {(keys_of_query(v, limits, last).begin + Tile.keys - 1) / Tile.keys,
              keys_of_query(v, limits, first).end / Tile.keys};
    position_ = first + static_cast<int>(thread_ / 32 * 16 + thread_ % 32 / 4) + limits.shift;
    keys_ = limits.keys;
    if constexpr (Pairs) return accumulate(out, rows, tiles);
    if (mine.begin == mine.end) return skip(tiles.end - tiles.begin);
    skip(tiles.end - mine.end);
    accumulate(out, rows, mine);
    skip(mine.begin - tiles.begin);
  }

  JAXATOR_DEVICE void accumulate(Out& out, SoftmaxRows& rows, Interval tiles) {
    TileWalk<Tile, Pairs> walk(params_.visibility, item_at<Tile.queries>(params_, at_), tiles);
    if (!next(walk)) return;
    Logits s;
    Operand p;
    float factor[2];
    barrier_wait(shared_.key_full(stage(visited_)), parity(visited_));
    multiply_keys(s, visited_);
    release_query_before();
    bool more = finish_logits<0>(s, walk, visited_);
    softmax(s, rows, factor, exponent_scale());
    pack_operand<T>(p, s);
    barrier_wait(shared_.value_full(stage(visited_)), parity(visited_));
#pragma unroll 1
    while (more) {
      barrier_wait(shared_.key_full(stage(visited_ + 1)), parity(visited_ + 1));
      multiply_keys(s, visited_ + 1);
      multiply_values(out, p);
      more = finish_logits<1>(s, walk, visited_ + 1);
      const bool rescale = softmax(s, rows, factor, exponent_scale());
      barrier_wait(shared_.value_full(stage(visited_ + 1)), parity(visited_ + 1));
      wgmma_wait_for<0>(out);
      release(shared_.value_empty(stage(visited_)));
      visited_++;
      if (rescale) multiply(out, factor);
      pack_operand<T>(p, s);
    }
    multiply_values(out, p);
    wgmma_wait_for<0>(out);
    release(shared_.value_empty(stage(visited_)));
    visited_++;
  }

  JAXATOR_DEVICE bool next(TileWalk<Tile, Pairs>& walk) const {
    return walk.next(params_.visibility, item_at<Tile.queries>(params_, opaque(at_)).batch);
  }

  /// Waits for the products of the walk's tile, of which `Groups` younger groups may be under way, and hides what is not visible.
  /// Meanwhile reads what is known pair by pair, and goes on to the next tile; returns whether there is one.
  template <int Groups> JAXATOR_DEVICE bool finish_logits(Logits& s, TileWalk<Tile, Pairs>& walk, u32 visited) {
    const int tile = walk.tile;
    bool more;
    if constexpr (Pairs) {
      Logits added;
      const ForwardItem item = item_at<Tile.queries>(params_, opaque(at_));
      const int query = item.query + static_cast<int>(group_ * 64 + thread_ / 32 * 16 + thread_ % 32 / 4);
      const bool whole = (tile + 1) * Tile.keys <= params_.visibility.key_length;
      read_pairs(added, params_.visibility, {item.batch, item.head, query, first_key(tile), whole}, walk.mixed);
      more = next(walk);
      wgmma_wait_for<Groups>(s);
      add_pairs(s, added, params_.scale);
    } else {
      more = next(walk);
      wgmma_wait_for<Groups>(s);
    }
    release(shared_.key_empty(stage(visited)));
    if (tile < inner_.begin || tile >= inner_.end) hide_outside(s, params_.visibility, keys_, {position_, first_key(tile)});
    return more;
  }

  JAXATOR_DEVICE float exponent_scale() const { return Pairs ? 1.0f : params_.scale; }

  JAXATOR_DEVICE static void multiply(Out& out, const float (&factor)[2]) {
#pragma unroll
    for (int i = 0; i < Tile.value_size / 2; i++) out[i] *= factor[i / 2 % 2];
  }

  JAXATOR_DEVICE int first_key(int tile) const { return tile * Tile.keys + static_cast<int>(thread_ % 4 * 2); }

  /// Descriptors of all steps would be kept in registers through the loop, of which the kernel for pairs has none left.
  JAXATOR_DEVICE static u32 kept_apart(u32 address) { return Pairs ? opaque(address) : address; }

  /// s = Q K^T, one group of wgmma.
  JAXATOR_DEVICE void multiply_keys(Logits& s, u32 visited) const {
    const u64 q = matrix_descriptor(kept_apart(shared_.query(query_stage()) + group_ * 64 * 128));
    const u64 k = matrix_descriptor(kept_apart(shared_.key(stage(visited))));
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < Tile.head_size / 16; i++)
      wgmma<T>(s, q + i % 4 * 2 + i / 4 * (Tile.queries * 128 / 16), k + i % 4 * 2 + i / 4 * (kGroupKeys / 16), i > 0);
    wgmma_commit();
  }

  /// out += P V, one group of wgmma.
  JAXATOR_DEVICE void multiply_values(Out& out, const Operand& p) const {
    const u64 v = transposed_descriptor(kept_apart(shared_.value(stage(visited_))), kGroupKeys);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < Tile.keys / 16; i++)
      wgmma_registers<T, true>(out, p[4 * i], p[4 * i + 1], p[4 * i + 2], p[4 * i + 3], v + i * (16 * 128 / 16));
    wgmma_commit();
  }

  JAXATOR_DEVICE void release(u32 empty) const {
    if (thread_ == 0) barrier_arrive(empty);
  }

  /// Tiles that only other warpgroups want. Each warp waits, and they wait for each other: else a fast one would release a
  /// buffer twice, or a slow one would miss a phase.
  JAXATOR_DEVICE void skip(int tiles) {
#pragma unroll 1
    for (; tiles > 0; tiles--) {
      barrier_wait(shared_.key_full(stage(visited_)), parity(visited_));
      barrier_wait(shared_.value_full(stage(visited_)), parity(visited_));
      named_sync<128>(1 + group_);
      release(shared_.key_empty(stage(visited_)));
      release(shared_.value_empty(stage(visited_)));
      visited_++;
    }
  }

  /// Once the output of the item before has left its memory, queries may be loaded there.
  JAXATOR_DEVICE void release_query_before() {
    if constexpr (Tile.query_stages > 1) {
      if (thread_ == 0 && released_ < items_) {
        tma_wait_read<0>();
        barrier_arrive(shared_.query_empty(released_ % Tile.query_stages));
        released_++;
      }
    }
  }

  JAXATOR_DEVICE static void clear(Out& out) {
#pragma unroll
    for (int i = 0; i < Tile.value_size / 2; i++) asm volatile("mov.f32 %0, 0f00000000;" : "=f"(out[i]));
  }

  /// Rows that saw no key get 0 and -inf by selection: their sums may be NaN.
  JAXATOR_DEVICE void finish(const Out& out, const SoftmaxRows& rows) {
    const ForwardItem item = item_at<Tile.queries>(params_, opaque(at_));
    const Limits limits = uniform_limits_of(params_.visibility, item.batch);
    const u32 lane = thread_ % 32, warp = thread_ / 32;
    float factor[2];
    bool seen[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const int query = item.query + static_cast<int>(group_ * 64 + warp * 16 + lane / 4) + 8 * h;
      const float sum = quad_sum(rows.sum[h]);
      seen[h] = query < limits.queries && sum != 0;
      factor[h] = 1 / sum;
      if (lane % 4 == 0 && query < params_.visibility.query_length) {
        const i64 row = (static_cast<i64>(item.batch) * params_.visibility.query_length + query) * params_.heads + item.head;
        params_.lse[row] = seen[h] ? (rows.most[h] * exponent_scale() + log2_approx(sum)) * kLn2 : minus_infinity();
      }
    }
    store(out, item, factor, seen);
  }

  /// Through the memory of this warpgroup's queries, which it has read.
  JAXATOR_DEVICE void store(const Out& out, const ForwardItem& item, const float (&factor)[2], const bool (&seen)[2]) {
    const u32 lane = thread_ % 32, row = thread_ / 32 * 16 + lane % 16;
    const u32 box = shared_.query(query_stage()) + group_ * 64 * 128;
    const auto pair = [&](int i, int h) {
      const float x = out[4 * i + 2 * h] * factor[h], y = out[4 * i + 2 * h + 1] * factor[h];
      return seen[h] ? pack2<T>(x, y) : 0u;
    };
    release_query_before();       // of an item that had no keys to visit
    named_sync<128>(1 + group_);  // every warp's products with these queries are complete
#pragma unroll
    for (int i = 0; i < Tile.value_size / 8; i += 2)
      stmatrix(box + i / 8 * Tile.queries * 128 + row * 128 + (((i % 8 + lane / 16) ^ (row & 7)) << 4), pair(i, 0), pair(i, 1),
               pair(i + 1, 0), pair(i + 1, 1));
    fence_shared_for_async();
    named_sync<128>(1 + group_);
    if (thread_ != 0) return;
#pragma unroll
    for (int c = 0; c < Tile.value_size; c += 64)
      tma_store(maps_.out, box + c * Tile.queries * 2, c, item.head, item.query + group_ * 64, item.batch);
    tma_commit();
    if constexpr (Tile.query_stages == 1) {
      tma_wait_read<0>();
      barrier_arrive(shared_.query_empty(0));
    }
  }

  const ForwardParams& params_;
  const ForwardMaps& maps_;
  ForwardShared<Tile> shared_;
  u32 group_, thread_;
  u32 at_ = 0, items_ = 0, released_ = 0, visited_ = 0;
  Interval inner_;
  int position_, keys_;  // of this thread's first row: i + shift; keys of the batch entry
};

}  // namespace jaxator::hopper::attention
