/// @file
/// Order: what the compiler may move, what a wave waits for, which waves go first.
#pragma once

#include "src/tile/cdna/base.h"

/// A kernel whose blocks have exactly `threads` threads, with the waves that a SIMD is to hold: 1 gives a thread 512 registers, 2
/// gives it 256.
#define JAXATOR_KERNEL_OF_WAVES(threads, waves) \
  extern "C" __attribute__((amdgpu_kernel, amdgpu_flat_work_group_size(threads, threads), amdgpu_waves_per_eu(waves, waves))) void

namespace jaxator::cdna {

/// Waits until at most so many loads or stores of global memory (`memory`) and accesses of LDS or scalar loads (`lds`) are under
/// way. The defaults wait for nothing.
template <int memory = 63, int lds = 15> JAXATOR_DEVICE void wait() {
  static_assert(memory >= 0 && memory < 64 && lds >= 0 && lds < 16);
  constexpr int kNoExports = 7 << 4;
  __builtin_amdgcn_s_waitcnt((memory & 15) | kNoExports | lds << 8 | memory >> 4 << 14);
}

/// Nothing is scheduled across, and no access of memory moves across. Costs no instruction and waits for nothing.
JAXATOR_DEVICE void order() {
  asm volatile("" ::: "memory");
  __builtin_amdgcn_sched_barrier(0);
}

/// Every wave of the block, without any wait: what a wave wrote to LDS it must have waited for. A bare s_barrier orders nothing
/// for the optimiser, which then sinks LDS reads across it; a fence would wait for every load from global memory.
JAXATOR_DEVICE void barrier() {
  order();
  __builtin_amdgcn_s_barrier();
  order();
}

/// Of two waves that could issue, the one with the higher priority does.
template <int level> JAXATOR_DEVICE void priority() { __builtin_amdgcn_s_setprio(level); }

enum class Issue : int { vector = 2, scalar = 4, mfma = 8, memory = 16, memory_read = 32, lds_read = 0x100, lds_write = 0x200 };

/// The next `count` instructions of this kind, in the order of calls in a block of code.
template <Issue kind, int count> JAXATOR_DEVICE void issue() {
  if constexpr (count > 0) __builtin_amdgcn_sched_group_barrier(static_cast<int>(kind), count, 0);
}

}  // namespace jaxator::cdna
