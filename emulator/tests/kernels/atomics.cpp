#include "common.h"

static SHARED u32 hist[64];
KERNEL(256) void atomics(const u32 GLOBAL* x, u32 GLOBAL* h, float GLOBAL* s, u32 GLOBAL* pk, u32 GLOBAL* cnt, int n) {
  int t = thread();
  if (t < 64) hist[t] = 0;
  barrier();
  int i = block_x() * 256 + t;
  if (i < n) __scoped_atomic_fetch_add(&hist[x[i] & 63], 1u, __ATOMIC_RELAXED, __MEMORY_SCOPE_WRKGRP);
  barrier();
  if (t < 64) __scoped_atomic_fetch_add(&h[t], hist[t], __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
  __builtin_amdgcn_global_atomic_fadd_f32(s, (float)(x[i] & 7));
  __builtin_amdgcn_global_atomic_fadd_v2bf16((GLOBAL s16x2*)pk, (s16x2){0x3f80, 0x4000});
  u32 old = __scoped_atomic_fetch_add(&cnt[0], 1u, __ATOMIC_ACQ_REL, __MEMORY_SCOPE_DEVICE);
  if (old == (u32)n - 1) cnt[1] = 77;
}
