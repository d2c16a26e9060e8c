/// @file
/// The two warpgroups that compute. Each owns 64 keys of the item: with keys as rows, S^T = K Q^T and dP^T = V dO^T leave P^T and
/// dS^T in registers as the left operands of dV += P^T dO and dK += dS^T Q. dS also goes to shared memory, where both warpgroups
/// read all of it for their half of dQ = dS K, one block later, so that neither waits for the other's exponentials.
///
/// Order in a block j: [dP, dV, dQ(j-1) under way] dS; store dQ(j-1) and dS; [S(j+1), dK under way] exponentials. Nothing is
/// under way at the end of a round: the assembler does not follow groups of products across a back edge. Registers are the limit:
/// dk and dv 128, then dP 32, dQ 32 and P 16, or S 32, dS 16 and the next P 16, of 240. So P is kept in the element type alone,
/// and dS comes from that; and what is rare reads its numbers again instead of holding them.
#pragma once

#include "src/ops/attention/hopper_backward_pairs.h"
#include "src/ops/attention/hopper_backward_schedule.h"
#include "src/tile/hopper/math.h"
#include "src/tile/hopper/tma.h"
#include "src/tile/hopper/wgmma_attention.h"

namespace jaxator::hopper::attention {

/// Two neighbouring floats; the offset goes into the instruction, where it costs no register.
struct FloatPair {
  float x, y;
};
JAXATOR_DEVICE FloatPair load_shared_pair(u32 address, int offset) {
  FloatPair pair;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2+%3];" : "=f"(pair.x), "=f"(pair.y) : "r"(address), "n"(offset));
  return pair;
}

template <class T> JAXATOR_DEVICE float low_half(u32 x) { return to_float(T{static_cast<u16>(x)}); }
template <> JAXATOR_DEVICE float low_half<Bf16>(u32 x) { return bits_as<float>(x << 16); }
template <class T> JAXATOR_DEVICE float high_half(u32 x) { return to_float(T{static_cast<u16>(x >> 16)}); }
template <> JAXATOR_DEVICE float high_half<Bf16>(u32 x) { return bits_as<float>(x & 0xFFFF0000u); }

/// A zero that no optimiser moves. As plain constants the accumulators would be set where a product is under way, and every
/// product would be serialised.
JAXATOR_DEVICE float fixed_zero() {
  float zero;
  asm volatile("mov.b32 %0, 0;" : "=f"(zero));
  return zero;
}

/// kPairs: mask, bias or segments are read pair by pair; else only the edges of the visible band are selected, where there are
/// any. One copy of the code for each warpgroup: its descriptors are then uniform registers.
template <class T, int kHead, bool kPairs, u32 kWarpgroup> struct BackwardConsumer {
  using Layout = BackwardLayout<kHead, kPairs>;
  static constexpr int kQueries = Layout::kQueries;
  static constexpr int kHeadSteps = kHead / 16, kKeySteps = Layout::kKeys / 16;

  const BackwardParams& p;
  Layout shared;
  u32 thread = thread_x() % 128, lane = thread_x() % 32;
  float dk[kHead / 2], dv[kHead / 2], s[kQueries / 2], dp[kQueries / 2], dq[32];
  u32 probabilities[kQueries / 4], ds[kQueries / 4];
  u32 count = 0;  // of blocks so far: their dS and dq take turns between two places
  RingPosition<Layout::kStages> ring;

  JAXATOR_DEVICE BackwardConsumer(const BackwardParams& parameters, Layout layout) : p(parameters), shared(layout) {}

  JAXATOR_DEVICE u32 row() const { return thread / 32 * 16 + lane % 16; }  // of the 64 keys, for stores of 8x8 matrices
  JAXATOR_DEVICE bool first_lane() const { return lane == 0; }
  JAXATOR_DEVICE bool first_thread() const { return thread == 0; }

  // ---- products ----

  JAXATOR_DEVICE void start_s(u32 stage) {
    multiply<T, kHeadSteps>(s, low_descriptor(shared.key() + kWarpgroup * 8192), AlongRows{Layout::kHalfKeys},
                            low_descriptor(shared.query(stage)), AlongRows{Layout::kHalfQueries});
  }
  JAXATOR_DEVICE void start_dp(u32 stage) {
    multiply<T, kHeadSteps>(dp, low_descriptor(shared.value() + kWarpgroup * 8192), AlongRows{Layout::kHalfKeys},
                            low_descriptor(shared.dout(stage)), AlongRows{Layout::kHalfQueries});
  }
  JAXATOR_DEVICE void start_dv(u32 stage) {
    multiply_registers<T>(dv, probabilities, low_descriptor_transposed(shared.dout(stage), Layout::kHalfQueries));
  }
  JAXATOR_DEVICE void start_dk(u32 stage) {
    multiply_registers<T>(dk, ds, low_descriptor_transposed(shared.query(stage), Layout::kHalfQueries));
  }
  /// 64 columns of 64 queries in native head size 128, 64 queries of 64 columns in 64; over all the keys.
  JAXATOR_DEVICE void start_dq(u32 block) {
    barrier_wait(shared.ds_ready(block & 1), block >> 1 & 1);
    const u32 queries = shared.ds(block & 1) + (kHead == 64 ? kWarpgroup * Layout::kHalfKeys : 0);
    const u32 columns = shared.key() + (kHead == 128 ? kWarpgroup * Layout::kHalfKeys : 0);
    multiply<T, kKeySteps>(dq, low_descriptor_transposed(queries, Layout::kHalfKeys), DownRows{},
                           low_descriptor_transposed(columns, Layout::kHalfKeys), DownRows{});
  }

  // ---- elementwise ----

  /// Pairs outside the band, in the registers' order.
  JAXATOR_DEVICE void select_band(u32 stage) {
    const u32 me = thread_x() % 128, band = shared.band(stage);
    const int key = kWarpgroup * 64 + me / 32 * 16 + me % 32 / 4, low = load_shared_int(band + kBandLow);
    const u32 width = load_shared_int(band + kBandWidth);
    const int keys = load_shared_int(band + kBandKeys);
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const int mine = key + 8 * half;
      // A key that is padding is out of reach of every query.
      const u32 distance = mine < keys ? mine - static_cast<int>(me % 4 * 2) - low : 1u << 30;
#pragma unroll
      for (int i = 0; i < kQueries / 8; i++)
#pragma unroll
        for (int e = 0; e < 2; e++)
          if (distance - (8 * i + e) > width) s[4 * i + 2 * half + e] = p.hidden;
    }
  }

  /// P = exp2(scale S - lse), in the element type.
  JAXATOR_DEVICE void exponentials(u32 stage) {
    if constexpr (kPairs)
      PairLogits<kQueries>{p, shared.band(stage), kWarpgroup * 64, s}.run(shared.query_ids(stage), shared.key_ids());
    else if (load_shared_int(shared.band(stage) + kBandEdge) != 0)
      select_band(stage);
    const u32 lse = shared.lse(stage) + lane % 4 * 8;
#pragma unroll
    for (int i = 0; i < kQueries / 8; i++) {
      const FloatPair l = load_shared_pair(lse, i * 32);
      float* x = s + 4 * i;
      const float scale = kPairs ? 1.0f : p.scale_log2;
      x[0] = exp2_approx(x[0] * scale - l.x), x[1] = exp2_approx(x[1] * scale - l.y);
      x[2] = exp2_approx(x[2] * scale - l.x), x[3] = exp2_approx(x[3] * scale - l.y);
      probabilities[2 * i] = pack2<T>(x[0], x[1]), probabilities[2 * i + 1] = pack2<T>(x[2], x[3]);
    }
  }

  /// dS = P (dP - delta), in dp.
  JAXATOR_DEVICE void logit_gradients(u32 stage) {
    const u32 delta = shared.delta(stage) + lane % 4 * 8;
#pragma unroll
    for (int i = 0; i < kQueries / 8; i++) {
      const FloatPair d = load_shared_pair(delta, i * 32);
      float* x = dp + 4 * i;
      x[0] = low_half<T>(probabilities[2 * i]) * (x[0] - d.x), x[1] = high_half<T>(probabilities[2 * i]) * (x[1] - d.y);
      x[2] = low_half<T>(probabilities[2 * i + 1]) * (x[2] - d.x), x[3] = high_half<T>(probabilities[2 * i + 1]) * (x[3] - d.y);
    }
    pin(dp);
  }

  /// dS as [key][query], 64 queries in rows of 128 bytes. Two places are enough: dS(j) takes the place of dS(j-2), which both
  /// warpgroups had read when they gave dS(j-1), and this one has waited for that to start dQ(j-1).
  JAXATOR_DEVICE void store_ds() {
#pragma unroll
    for (int i = 0; i < kQueries / 4; i++) ds[i] = pack2<T>(dp[2 * i], dp[2 * i + 1]);
    const u32 at = shared.ds(count & 1) + kWarpgroup * 8192 + row() * 128;
#pragma unroll
    for (int i = 0; i < kQueries / 8; i += 2)
      stmatrix(at + i / 8 * Layout::kHalfKeys + (((i % 8 + lane / 16) ^ (row() & 7)) << 4), ds[2 * i], ds[2 * i + 1],
               ds[2 * i + 2], ds[2 * i + 3]);
  }

  JAXATOR_DEVICE void store_dq() {
    const u32 at = shared.dq() + kWarpgroup * (kDqBlock * 2) + thread * 16;
#pragma unroll
    for (int i = 0; i < 8; i++)
      store_shared(at + i * 2048, Vector{bits_as<u32>(dq[4 * i]), bits_as<u32>(dq[4 * i + 1]), bits_as<u32>(dq[4 * i + 2]),
                                         bits_as<u32>(dq[4 * i + 3])});
  }

  /// What this warp wrote: dS of this block to the matrix units, dQ of the one before to the copy engine.
  JAXATOR_DEVICE void give(bool with_ds, bool with_dq) {
    fence_shared_for_async();
    warp_sync();
    if (!first_lane()) return;
    if (with_ds) barrier_arrive(shared.ds_ready(count & 1));
    if (with_dq) barrier_arrive(shared.dq_ready(~count & 1));
  }

  // ---- the pipeline ----

  JAXATOR_DEVICE void begin() {
#pragma unroll
    for (int i = 0; i < kHead / 2; i++) dk[i] = fixed_zero(), dv[i] = fixed_zero();
    barrier_wait(shared.query_ready(ring.stage), ring.parity);
    start_s(ring.stage);
    wgmma_wait_for<0>(s);
    exponentials(ring.stage);
    barrier_wait(shared.dout_ready(ring.stage), ring.parity);
  }

  /// The first round has no block before it: its dQ is computed from what happens to lie there, and dropped. The last one
  /// computes S again from its own block, under 0.3 % of an item, so that no branch surrounds a product.
  JAXATOR_DEVICE void round(bool first, bool last) {
    const RingPosition<Layout::kStages> now = ring;
    if (!last) ring.advance();
    start_dp(now.stage);
    start_dv(now.stage);
    start_dq(count - 1);
    wgmma_wait_for<2>(dp);
    logit_gradients(now.stage);
    barrier_wait(shared.query_ready(ring.stage), ring.parity);
    if (!first) barrier_wait(shared.dq_free(), count & 1);
    wgmma_wait_for<0>(dq);
    if (!first) store_dq();
    store_ds();
    give(true, !first);
    start_s(ring.stage);
    start_dk(now.stage);
    wgmma_wait_for<1>(s);
    exponentials(ring.stage);
    // A branch here keeps the exponentials above the wait.
    if (!last) barrier_wait(shared.dout_ready(ring.stage), ring.parity);
    wgmma_wait_for<0>(dk);
    // By one thread: the products that read the stage, and all warps' plain reads of it, were over before dK was.
    if (first_thread()) barrier_arrive(shared.stage_free(now.stage));
    count++;
  }

  JAXATOR_DEVICE void end() {
    ring.advance();
    start_dq(count - 1);
    barrier_wait(shared.dq_free(), count & 1);
    wgmma_wait_for<0>(dq);
    wgmma_wait_for<0>(dk);
    wgmma_wait_for<0>(dv);
    store_dq();
    give(false, true);
  }

  // ---- results ----

  JAXATOR_DEVICE void store_float32(float* to, const float (&x)[kHead / 2], float factor, int size) const {
    const Item item = Item::load(shared.item());
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const int key = item.key_block * Layout::kKeys + kWarpgroup * 64 + thread / 32 * 16 + lane / 4 + half * 8;
      if (key >= p.see.key_length) continue;
      float* at = to + ((static_cast<i64>(item.batch) * p.see.key_length + key) * p.kv_heads + item.kv_head) * size;
#pragma unroll
      for (int i = 0; i < kHead / 8; i++) {
        const int column = 8 * i + lane % 4 * 2;  // sizes are even, so pairs are whole
        if (column < size)
          asm volatile("st.global.v2.f32 [%0], {%1, %2};" ::"l"(at + column), "f"(x[4 * i + 2 * half] * factor),
                       "f"(x[4 * i + 2 * half + 1] * factor)
                       : "memory");
      }
    }
  }

  JAXATOR_DEVICE void store_tile(u32 tile, const float (&x)[kHead / 2], float factor) const {
    const u32 at = tile + kWarpgroup * 8192 + row() * 128;
#pragma unroll
    for (int i = 0; i < kHead / 8; i += 2) {
      const float* y = x + 4 * i;
      stmatrix(at + i / 8 * Layout::kHalfKeys + (((i % 8 + lane / 16) ^ (row() & 7)) << 4),
               pack2<T>(y[0] * factor, y[1] * factor), pack2<T>(y[2] * factor, y[3] * factor),
               pack2<T>(y[4] * factor, y[5] * factor), pack2<T>(y[6] * factor, y[7] * factor));
    }
  }

  /// dk and dv take the place of K and V, once both warpgroups are done with those.
  JAXATOR_DEVICE void store_results(const TensorMap& to_dk, const TensorMap& to_dv) {
    if (p.dk32 != nullptr) {
      store_float32(p.dk32, dk, p.scale, p.head_size);
      store_float32(p.dv32, dv, 1, p.value_size);
      named_sync<128>(1 + kWarpgroup);  // the item may be overwritten as soon as the first thread says so
    } else {
      named_sync<256>(3);
      store_tile(shared.key(), dk, p.scale);
      store_tile(shared.value(), dv, 1);
      fence_shared_for_async();
      named_sync<128>(1 + kWarpgroup);
      if (!first_thread()) return;
      const Item item = Item::load(shared.item());
      const int row = item.key_block * Layout::kKeys + kWarpgroup * 64;
#pragma unroll
      for (int i = 0; i < kHead / 64; i++) {
        const u32 from = kWarpgroup * 8192 + i * Layout::kHalfKeys;
        tma_store(to_dk, shared.key() + from, 64 * i, item.kv_head, row, item.batch);
        tma_store(to_dv, shared.value() + from, 64 * i, item.kv_head, row, item.batch);
      }
      tma_commit(), tma_wait_read<0>();
    }
  }

  JAXATOR_DEVICE void run(const TensorMap& to_dk, const TensorMap& to_dv) {
#pragma unroll 1
    for (u32 parity = 0;; parity ^= 1) {
      barrier_wait(shared.keys_ready(), parity);
      if (load_shared_int(shared.item()) < 0) break;
      int remaining = load_shared_int(shared.item() + 16) * (p.heads / p.kv_heads);
      if (remaining > 0) {
        begin();
        bool first = true;
#pragma unroll 1
        for (;;) {
          const bool last = --remaining == 0;
          round(first, last);
          first = false;
          if (last) break;
        }
        end();
      } else {
#pragma unroll
        for (int i = 0; i < kHead / 2; i++) dk[i] = dv[i] = 0;
      }
      store_results(to_dk, to_dv);
      if (first_thread()) barrier_arrive(shared.keys_free());
    }
    if (first_thread()) tma_wait<0>();
  }
};

}  // namespace jaxator::hopper::attention
