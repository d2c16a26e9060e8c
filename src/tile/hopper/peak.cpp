/// @file
/// The limit that matrix kernels are compared with: products of shared-memory tiles that never change, no loads in between.
#include "src/tile/hopper/wgmma.h"

namespace jaxator::hopper {

/// A block has two warpgroups of m64n256k16 products; shared memory holds pseudo-random bfloat16 numbers in (-2, 2), because
/// zeros draw less power and run faster than data does.
JAXATOR_KERNEL(256, 1) wgmma_peak(float* out, int steps) {
  constexpr u32 kBytes = 64 * 128 * 2 + 256 * 128;
  const u32 shared = shared_base(), thread = thread_x();
  u32 state = thread * 2654435761u + 12345u;
  for (u32 at = thread * 4; at < kBytes; at += 256 * 4) {
    state = state * 1664525u + 1013904223u;
    // Exponents 120 to 127, any sign and mantissa, in both halves.
    const u32 bits = (state & 0x83ff83ffu) | 0x3c003c00u;
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(shared + at), "r"(bits) : "memory");
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  block_sync();
  const u64 a = matrix_descriptor(shared + thread / 128 * 8192), b = matrix_descriptor(shared + 16384);
  float d[128] = {};
#pragma unroll 1
  for (int i = 0; i < steps; i++) {
    wgmma_fence();
#pragma unroll
    for (int j = 0; j < 4; j++) wgmma<Bf16>(d, a + 2 * j, b + 2 * j);
    wgmma_commit();
    wgmma_wait<1>();
  }
  wgmma_wait_for<0>(d);
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 128; i++) sum += d[i];
  out[block_x() * 256 + thread] = sum;
}

}  // namespace jaxator::hopper
