/// @file
/// What surrounds the main kernel of attention's backward pass: values of each query row before it, dq in its own type after it.
/// Both are bound by memory: 71 and 50 us for 8192 tokens of 32 heads of 128, about 4 TB/s.
#include "src/ops/attention/hopper_backward_schedule.h"
#include "src/tile/hopper/reduce.h"

namespace jaxator::hopper::attention {

inline constexpr int kThreads = 256;

/// kLanes threads a row of [B, padded queries, N], kLanes * 8 >= V.
template <class T, int kHead> JAXATOR_DEVICE void prepare(const BackwardParams& p) {
  constexpr int kLanes = kHead / 8, kRows = kThreads / kLanes, kQueries = backward_queries(kHead);
  // A batch entry has a multiple of 64 rows, so blocks do not straddle entries.
  const u32 padded = p.query_blocks * kQueries, blocks = padded / kRows * p.heads;
  const u32 batch = block_x() / blocks, row = block_x() % blocks * kRows + thread_x() / kLanes;
  const u32 query = row / p.heads, head = row % p.heads, lane = thread_x() % kLanes;
  const bool real = query < static_cast<u32>(p.see.query_length);
  const i64 from = (static_cast<i64>(batch) * p.see.query_length + query) * p.heads + head;
  float sum[1] = {0};
  if (real && lane * 8 < static_cast<u32>(p.value_size)) {
    float o[8], g[8];
    unpack<T>(load_once(static_cast<const T*>(p.out) + from * p.value_size + lane * 8), o);
    unpack<T>(load_once(static_cast<const T*>(p.dout) + from * p.value_size + lane * 8), g);
#pragma unroll
    for (int i = 0; i < 8; i++) sum[0] += o[i] * g[i];
  }
#pragma unroll
  for (int mask = kLanes / 2; mask > 0; mask /= 2) sum[0] += shuffle_xor(sum[0], mask);
  if (lane != 0) return;
  const i64 plane = static_cast<i64>(batch) * p.heads + head, to = plane * padded + query;
  const float lse = real ? p.lse[from] : -__builtin_inff();
  // A row without a visible key has gradients 0 by selection, whatever its cotangents hold.
  const bool dead = lse == -__builtin_inff();
  p.lse2[to] = dead ? __builtin_inff() : lse * 1.4426950408889634f;
  p.delta[to] = dead ? 0 : sum[0] - (p.dlse != nullptr ? p.dlse[from] : 0.0f);
  if (p.query_ids != nullptr && head == 0) {
    const i64 id = static_cast<i64>(batch) * p.see.query_length + query;
    p.query_ids[static_cast<i64>(batch) * padded + query] = real ? p.see.query_segments[id] : -1;
  }
  if (query % kQueries == 0) p.turns[(plane * p.query_blocks + query / kQueries) * kTurnWords] = 0;
  if (block_x() == 0 && thread_x() == 0) *p.next_item = 0;
}

/// A block of dq: its sums are in the order of accumulators and become rows by way of shared memory.
template <class T, int kHead> JAXATOR_DEVICE void finish(const BackwardParams& p) {
  constexpr int kQueries = backward_queries(kHead);
  constexpr u32 kRowBytes = kHead * 2 + 16;  // 16 more than a power of two: rows start in different banks
  const u32 thread = thread_x(), warpgroup = thread / 128, warp = thread % 128 / 32, lane = thread % 32;
  const u32 query_block = block_x() % p.query_blocks, plane = block_x() / p.query_blocks;
  const u32 head = plane % p.heads, batch = plane / p.heads;
  const Limits limits = limits_of(p.see, batch);
  const Interval blocks = key_blocks_of<kQueries>(p, limits, query_block);
  const float scale = p.scale;

  // Accumulators of the two warpgroups: halves of the columns in native head size 128, of the rows in 64.
  const u32 at = shared_base() + (warp * 16 + lane / 4 + (kHead == 64 ? warpgroup * 64 : 0)) * kRowBytes +
                 (kHead == 128 ? warpgroup * 128 : 0) + lane % 4 * 4;
  const float* from = p.dq_sums + static_cast<i64>(block_x()) * kDqBlock + warpgroup * (kDqBlock / 2) + thread % 128 * 4;
#pragma unroll
  for (int i = 0; i < 8; i++) {
    float x[4] = {0, 0, 0, 0};
    if (blocks.begin < blocks.end) unpack<float>(load_once(from + i * 512), x);
    store_shared_int(at + i * 16, pack2<T>(x[0] * scale, x[1] * scale));
    store_shared_int(at + i * 16 + 8 * kRowBytes, pack2<T>(x[2] * scale, x[3] * scale));
  }
  block_sync();
  constexpr int kVectors = kHead / 8;  // of a row
  const u32 column = thread % kVectors * 8;
  if (column >= static_cast<u32>(p.head_size)) return;
#pragma unroll
  for (int i = 0; i < kQueries * kVectors / kThreads; i++) {
    const u32 row = i * (kThreads / kVectors) + thread / kVectors, query = query_block * kQueries + row;
    if (query >= static_cast<u32>(p.see.query_length)) break;
    const i64 to = ((static_cast<i64>(batch) * p.see.query_length + query) * p.heads + head) * p.head_size + column;
    store(static_cast<T*>(p.dq) + to, load_shared_vector(shared_base() + row * kRowBytes + column * 2));
  }
}

}  // namespace jaxator::hopper::attention

using jaxator::hopper::Bf16, jaxator::hopper::F16;
using jaxator::hopper::attention::BackwardParams;

#define JAXATOR_ENTRY(step, type, Element, head)                                                                     \
  JAXATOR_KERNEL(256, 4) attention_backward_##step##_##head##_##type(const JAXATOR_GRID_CONSTANT BackwardParams p) { \
    jaxator::hopper::attention::step<Element, head>(p);                                                              \
  }
JAXATOR_ENTRY(prepare, bf16, Bf16, 64)
JAXATOR_ENTRY(prepare, bf16, Bf16, 128)
JAXATOR_ENTRY(prepare, f16, F16, 64)
JAXATOR_ENTRY(prepare, f16, F16, 128)
JAXATOR_ENTRY(finish, bf16, Bf16, 64)
JAXATOR_ENTRY(finish, bf16, Bf16, 128)
JAXATOR_ENTRY(finish, f16, F16, 64)
JAXATOR_ENTRY(finish, f16, F16, 128)

/// Gradients of an empty problem.
JAXATOR_KERNEL(256, 4) attention_backward_zero(unsigned* to, long long words) {
  using namespace jaxator::hopper;
  for (i64 i = static_cast<i64>(block_x()) * 256 + thread_x(); i < words; i += static_cast<i64>(blocks_x()) * 256) to[i] = 0;
}
