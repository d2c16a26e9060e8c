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
JAXATOR_DEVICE float shuffle_from(float x, u32 lane) {
  float y;
  asm volatile("shfl.sync.idx.b32 %0, %1, %2, 31, -1;" : "=f"(y) : "f"(x), "r"(lane));
  return y;
}

/// Every lane gets the sum.
template <int N> JAXATOR_DEVICE void warp_sum(float (&x)[N]) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2)
#pragma unroll
    for (int i = 0; i < N; i++) x[i] += shuffle_xor(x[i], mask);
}

/// Lanes that differ in the bits of `mask` and below share the sums of `values` values: one half of them keeps the lower values
/// and gives the others away.
template <int values, int mask, int N> JAXATOR_DEVICE void scatter_sums(float (&x)[N]) {
  constexpr int kKept = values > 1 ? values / 2 : 1;
  const bool upper = thread_x() & mask;
#pragma unroll
  for (int i = 0; i < kKept; i++) {
    if constexpr (values > 1) {
      const float given = upper ? x[i] : x[i + kKept];
      x[i] = (upper ? x[i + kKept] : x[i]) + shuffle_xor(given, mask);
    } else {
      x[i] += shuffle_xor(x[i], mask);
    }
  }
  if constexpr (mask > 1) scatter_sums<kKept, mask / 2>(x);
}

/// Shared memory that block_sum of N values needs.
template <int N> inline constexpr u32 kBlockSumBytes = 2 * 32 * N * 4;

/// Sums of N = 1, 2 or 4 values over the first `warps` warps of a block; every thread gets them. All threads of the block take
/// part. Shuffles are few on purpose: a multiprocessor does one a clock, and with 32 warps they were a third of a row's time.
///
/// shared: kBlockSumBytes<N>. `turn` alternates between calls, so that one barrier a call is enough: a slow warp may still read
/// the sums of the call before.
template <int N> JAXATOR_DEVICE void block_sum(float (&x)[N], u32 shared, u32 warps, u32 turn) {
  static_assert(N == 1 || N == 2 || N == 4);
  constexpr u32 kGroup = 32 / N;  // lanes that have the sum of one value
  const u32 lane = thread_x() % 32, warp = thread_x() / 32, value = lane / kGroup;
  scatter_sums<N, 16>(x);  // 6 shuffles for four values, where sums for every lane take 20
  float sum = x[0];        // of the warp, of value `value`
  if (warps > 1) {
    // [value, warp]: a lane adds up N warps' sums, then its group does.
    const u32 sums = shared + (turn & 1) * (32 * N * 4) + value * 128;
    if (lane % kGroup == 0) store_shared(sums + warp * 4, sum);
    block_sync();
    sum = 0;
#pragma unroll
    for (u32 i = 0; i < N; i++) {
      const u32 other = lane % kGroup * N + i;
      if (other < warps) sum += load_shared(sums + other * 4);
    }
#pragma unroll
    for (u32 mask = kGroup / 2; mask > 0; mask /= 2) sum += shuffle_xor(sum, static_cast<int>(mask));
  }
#pragma unroll
  for (u32 i = 0; i < N; i++) x[i] = N == 1 ? sum : shuffle_from(sum, i * kGroup);
}

}  // namespace jaxator::hopper
