/// @file
/// Parameters of the backward pass on Hopper: written by the host, read from constant memory. One struct for all its kernels:
///   prepare: delta = rowsum(out dout) - dlse and lse to base 2, by head; counters to zero
///   main:    dk, dv, and dq as float32 sums in blocks
///   finish:  dq in its own type
///   bias:    dbias, from P and dS computed once more
#pragma once

#include "src/ops/attention/hopper_params.h"

namespace jaxator::hopper::attention {

/// Keys of one item of work, and so of a key block.
inline constexpr int kBackwardKeys = 128;

/// Query rows of a block, by native head size: 16 KiB of q and of dout either way.
constexpr int backward_queries(int native_head) { return native_head == 128 ? 64 : 128; }

/// float32 values of one block of dq in scratch, in the order of the accumulators that made them:
/// [warpgroup 2][fragment 8][thread 128][4], where a fragment is two rows of two neighbouring columns.
inline constexpr int kDqBlock = 8192;

/// Bytes of shared memory of the main kernel; BackwardLayout checks them.
constexpr int backward_shared_bytes(int native_head) { return native_head == 128 ? 232064 : 200832; }

/// A counter has 128 bytes of its own: neighbouring ones are polled and raised by different blocks at the same time.
inline constexpr int kTurnWords = 32;

/// Of the bias kernel: rows of its tiles, and bytes of shared memory.
inline constexpr int kBiasQueries = 64;
constexpr int bias_shared_bytes(int native_head) { return native_head == 128 ? 201472 : 103168; }

struct BackwardParams {
  Visibility see;
  const void *out, *dout;   // [B, T, N, V]
  const float *lse, *dlse;  // [B, T, N]; dlse may be null
  void* dq;                 // [B, T, N, H]
  float *dk32, *dv32;       // [B, S, K, H or V]: float32 gradients, or null
  float* dbias;             // in the shape of see.bias, or null

  float* dq_sums;       // [B, N, query blocks, kDqBlock]
  float *lse2, *delta;  // [B, N, padded queries]; lse2 is inf for rows without a visible key and past the end
  int* query_ids;       // [B, padded queries]: segment ids, -1 past the end; null without segments
  int* turns;           // [B, N, query blocks, kTurnWords]: how many key blocks have added to a block of dq
  int* next_item;       // one counter

  int batch, heads, kv_heads, head_size, value_size;
  int query_blocks, key_blocks;
  int items;             // key blocks of all batch entries and key heads
  int planes_together;   // pairs of batch entry and key head whose key blocks are handed out alternately
  int rows_may_be_dead;  // padding or rows without a visible key, whose q, k or dout may hold NaN
  float scale, scale_log2;
  float hidden;  // what a product q k becomes where the key is not visible: scale_log2 * hidden = -inf
};

}  // namespace jaxator::hopper::attention
