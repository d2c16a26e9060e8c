/// @file
/// Sums over a warp and over a block, in an order that does not depend on timing.
#pragma once

#include "src/tile/hopper/memory.h"

namespace jaxator::hopper {

JAXATOR_DEVICE float shuffle_xor(float x, int mask) {
  float y;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, -1;" : "=f"(y) : "f"(x), "r"(mask));
  return y;
}

/// Every lane gets the sum.
template <int N> JAXATOR_DEVICE void warp_sum(float (&x)[N]) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2)
#pragma unroll
    for (int i = 0; i < N; i++) x[i] += shuffle_xor(x[i], mask);
}

/// Sums of N values over the first `warps` warps of a block; every thread gets them. All threads of the block take part.
///
/// shared: 2 * 32 * N floats. `turn` alternates between calls, so that one barrier a call is enough: a slow warp may still read
/// the sums of the call before.
template <int N> JAXATOR_DEVICE void block_sum(float (&x)[N], u32 shared, u32 warps, u32 turn) {
  warp_sum(x);
  if (warps == 1) return;
  const u32 buffer = shared + (turn & 1) * (32 * N * 4), thread = thread_x();
  if (thread % 32 == 0)
#pragma unroll
    for (int i = 0; i < N; i++) store_shared(buffer + (thread / 32 * N + i) * 4, x[i]);
  block_sync();
#pragma unroll
  for (int i = 0; i < N; i++) x[i] = thread % 32 < warps ? load_shared(buffer + (thread % 32 * N + i) * 4) : 0.0f;
  warp_sum(x);
}

}  // namespace jaxator::hopper
