/// @file
/// Sums over a wave and over a block, in an order that does not depend on timing.
#pragma once

#include "src/tile/cdna/element.h"

namespace jaxator::cdna {

/// x + the same of another lane, within the rows of 16 lanes that DPP can reach; 0 comes from lanes of rows outside the mask.
template <int Control, int Rows = 0xf> JAXATOR_DEVICE float add_moved(float x) {
  return x + bits_as<float>(__builtin_amdgcn_update_dpp(0, bits_as<int>(x), Control, Rows, 0xf, false));
}

/// Every lane of a row of 16 gets the row's sum.
JAXATOR_DEVICE float row_sum(float x) {
  constexpr int kSwapNeighbours = 0xb1, kSwapPairs = 0x4e, kHalfMirror = 0x141, kMirror = 0x140;
  return add_moved<kMirror>(add_moved<kHalfMirror>(add_moved<kSwapPairs>(add_moved<kSwapNeighbours>(x))));
}

JAXATOR_DEVICE float broadcast(float x, u32 lane) { return bits_as<float>(__builtin_amdgcn_readlane(bits_as<int>(x), lane)); }

/// Every lane gets the sum, from a scalar register.
JAXATOR_DEVICE float wave_sum(float x) {
  // Lane 15 to the next row, then lane 31 to the upper half: lane 63 has all four rows.
  constexpr int kBroadcast15 = 0x142, kBroadcast31 = 0x143;
  return broadcast(add_moved<kBroadcast31, 0xc>(add_moved<kBroadcast15, 0xa>(row_sum(x))), 63);
}

/// Sums of N values over the `waves` (up to 16) waves of a block; every thread gets them. All threads of the block take part,
/// unless there is one wave: a block may then hold several rows, one for each wave.
template <int N> class BlockSum {
 public:
  /// One barrier a call is enough: calls take turns between two buffers, and a slow wave may still read those of the call before.
  JAXATOR_DEVICE void operator()(float (&x)[N], u32 wave, u32 waves) {
#pragma unroll
    for (int i = 0; i < N; i++) x[i] = wave_sum(x[i]);
    if (waves == 1) return;
    JAXATOR_SHARED float sums[2][N][16];
    auto& buffer = sums[turn_];
    turn_ ^= 1;
    if (lane() == 0)
#pragma unroll
      for (int i = 0; i < N; i++) buffer[i][wave] = x[i];
    block_sync();
#pragma unroll
    for (int i = 0; i < N; i++) x[i] = broadcast(row_sum(lane() < waves ? buffer[i][lane()] : 0.0f), 0);
  }

 private:
  u32 turn_ = 0;
};

/// Hands N values of each of the `waves` (up to 16) waves of a block to all: lane l gets those of wave l, lanes without a wave
/// those of wave 0. All threads of the block take part.
template <int N> class BlockGather {
 public:
  /// One barrier a call is enough, as for BlockSum.
  JAXATOR_DEVICE void operator()(float (&x)[N], u32 wave, u32 waves) {
    JAXATOR_SHARED float values[2][N][16];
    auto& buffer = values[turn_];
    turn_ ^= 1;
    if (lane() == 0)
#pragma unroll
      for (int i = 0; i < N; i++) buffer[i][wave] = x[i];
    block_sync();
    const u32 from = lane() < waves ? lane() : 0;
#pragma unroll
    for (int i = 0; i < N; i++) x[i] = buffer[i][from];
  }

 private:
  u32 turn_ = 0;
};

/// Every lane gets the sum over the first 16 lanes.
JAXATOR_DEVICE float sum_of_first_lanes(float x) { return broadcast(row_sum(x), 0); }

/// 1 / sqrt(x), 1 ulp; the instruction takes subnormal numbers for zeros.
JAXATOR_DEVICE float reciprocal_sqrt(float x) {
  const bool small = x < 0x1p-126f;
  const float y = __builtin_amdgcn_rsqf(small ? x * 0x1p24f : x);
  return small ? y * 0x1p12f : y;
}

}  // namespace jaxator::cdna
