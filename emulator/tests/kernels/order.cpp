#include "common.h"

// The order in which waves get here.
KERNEL(256) void order(u32 GLOBAL* counter, u32 GLOBAL* seen) {
  u32 wave = block_x() * 4 + thread() / 64;
  for (int k = 0; k < 4; k++) {
    if (thread() % 64 == 0) seen[__scoped_atomic_fetch_add(counter, 1u, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE)] = wave;
  }
}

// Wave 3 writes and raises a flag in LDS, the other waves wait for it. Atomic loads and stores would be plain instructions in
// LDS.
static SHARED u32 flag, value;
KERNEL(256) void spin_in_group(u32 GLOBAL* out) {
  if (thread() == 0) flag = 0;
  barrier();
  if (thread() / 64 == 3) {
    if (thread() % 64 == 0) {
      value = 42;
      __scoped_atomic_fetch_add(&flag, 1u, __ATOMIC_RELEASE, __MEMORY_SCOPE_WRKGRP);
    }
  } else {
    while (__scoped_atomic_fetch_and(&flag, 1u, __ATOMIC_ACQUIRE, __MEMORY_SCOPE_WRKGRP) == 0) {
    }
    out[thread()] = value;
  }
}

// Every workgroup waits for the one after it; the last one starts.
KERNEL(64) void spin_between_groups(u32 GLOBAL* flags, u32 GLOBAL* out, u32 groups) {
  u32 group = block_x();
  if (group + 1 < groups) {
    while (__scoped_atomic_load_n(&flags[group + 1], __ATOMIC_ACQUIRE, __MEMORY_SCOPE_DEVICE) == 0) {
    }
    if (thread() == 0) out[group] = out[group + 1] + 1;
  } else if (thread() == 0) {
    out[group] = 1;
  }
  if (thread() == 0) __scoped_atomic_store_n(&flags[group], 1u, __ATOMIC_RELEASE, __MEMORY_SCOPE_DEVICE);
}
