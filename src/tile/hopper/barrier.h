/// @file
/// mbarriers in shared memory: phases that threads and the bulk copy engine complete. Addresses are 32-bit shared addresses of
/// 8-byte words.
#pragma once

#include "src/tile/hopper/base.h"

namespace jaxator::hopper {

JAXATOR_DEVICE void barrier_init(u32 barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

/// One arrival, and this many bytes to wait for.
JAXATOR_DEVICE void barrier_expect(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

JAXATOR_DEVICE void barrier_arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/// At the same barrier of another block of the cluster. Without .release.cluster: that costs MEMBAR.ALL.GPU each time, and
/// the reads that this arrival reports were made by wgmma, which has completed.
JAXATOR_DEVICE void barrier_arrive_at(u32 barrier, u32 rank) {
  asm volatile(
      "{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

/// Until the phase of this parity is complete. Labels inside { } are local, so copies that the optimiser makes do not clash.
JAXATOR_DEVICE void barrier_wait(u32 barrier, u32 parity) {
  asm volatile(
      "{\n.reg .pred done;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra READY;\nbra AGAIN;\nREADY:\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

/// Makes initialised barriers visible to the cluster and to the copy engine; a block_sync or cluster_sync follows.
JAXATOR_DEVICE void fence_barrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

/// Makes this thread's writes to shared memory visible to the copy engine and to wgmma; a barrier follows.
JAXATOR_DEVICE void fence_shared_for_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/// Every thread of the cluster. Not .aligned: the warp of the producer has diverged.
JAXATOR_DEVICE void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

/// A position in a ring of `Stages` buffers, and the parity its barriers have in this round.
template <int Stages> struct RingPosition {
  u32 stage = 0, parity = 0;
  JAXATOR_DEVICE void advance() {
    if (++stage == Stages) stage = 0, parity ^= 1;
  }
};

}  // namespace jaxator::hopper
