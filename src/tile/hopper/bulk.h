/// @file
/// The bulk copy engine on plain runs of bytes (addresses and sizes are multiples of 16), and what orders its writes between
/// blocks.
#pragma once

#include "src/tile/hopper/base.h"

namespace jaxator::hopper {

/// To shared memory; `barrier` counts the bytes.
JAXATOR_DEVICE void bulk_load(u32 to, const void* from, u32 bytes, u32 barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from),
               "r"(bytes), "r"(barrier)
               : "memory");
}

/// From shared memory. Ended and waited for as tensor stores are: tma_commit, tma_wait_read, tma_wait.
JAXATOR_DEVICE void bulk_store(void* to, u32 from, u32 bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes) : "memory");
}

/// Into the second-level cache alone.
JAXATOR_DEVICE void bulk_prefetch(const void* from, u32 bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
}

/// Adds float32 values to global memory; the additions are made in the second-level cache.
JAXATOR_DEVICE void bulk_add(float* to, u32 from, u32 bytes) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes)
               : "memory");
}

/// Orders this thread's copy-engine accesses to global memory with its plain ones.
JAXATOR_DEVICE void fence_global_for_async() { asm volatile("fence.proxy.async.global;" ::: "memory"); }

JAXATOR_DEVICE int load_acquire(const int* from) {
  int value;
  asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}
JAXATOR_DEVICE void add_release(int* to, int value) {
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}
/// The value before.
JAXATOR_DEVICE int fetch_add(int* to, int value) {
  int before;
  asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], %2;" : "=r"(before) : "l"(to), "r"(value) : "memory");
  return before;
}

}  // namespace jaxator::hopper
