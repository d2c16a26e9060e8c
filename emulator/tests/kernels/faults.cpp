#include "common.h"

// One kernel for each fault that the emulator names: see docs/emulator.md. The line with the fault has a comment.
static SHARED u32 row[256];

KERNEL(256) void race(const u32 GLOBAL* x, u32 GLOBAL* y) {
  row[thread()] = x[thread()];
  y[thread()] = row[255 - thread()];  // no barrier before
}

KERNEL(256) void global_race(const u32 GLOBAL* x, u32 GLOBAL* y) {
  y[thread() / 128] = x[thread()];  // waves 0 and 1 write the same word
}

KERNEL(256) void missing_wait(const u32 GLOBAL* x, u32 GLOBAL* y) {
  u32 value;
  asm volatile("global_load_dword %0, %1, %2" : "=v"(value) : "v"(4 * thread()), "s"(x));
  y[thread()] = value + 1;  // the compiler does not know of the load
}

KERNEL(256) void hazard(const u32 GLOBAL* x, u32 GLOBAL* y) {
  u32 v = x[thread()];
  asm volatile("s_nop 0\n v_readfirstlane_b32 s20, %0\n v_readlane_b32 s21, %0, s20" ::"v"(v) : "s20", "s21");  // no s_nop 3
  y[thread()] = v;
}

KERNEL(256) void out_of_bounds(const u32 GLOBAL* x, u32 GLOBAL* y) {
  y[thread()] = x[thread() + 1];  // one too many
}

KERNEL(256) void uninitialised(const u32 GLOBAL* x, u32 GLOBAL* y) {
  if (thread() != 100) row[thread()] = x[thread()];
  barrier();
  y[thread()] = row[255 - thread()];  // nobody wrote row[100]
}

KERNEL(256) void bank_conflict(const u32 GLOBAL* x, u32 GLOBAL* y) {
  row[thread()] = x[thread()];
  barrier();
  y[thread()] = row[thread() * 32 % 256 + thread() / 8];  // 32 banks: a column is in one of them
}

static SHARED u32 rows[16 << 10];
KERNEL(256) void too_much_lds(const u32 GLOBAL* x, u32 GLOBAL* y) {
  rows[thread()] = x[thread()];  // 64 KiB, and 1 KiB more at launch
  barrier();
  y[thread()] = rows[255 - thread()];
}

KERNEL(256) void unknown_instruction(const u32 GLOBAL* x, u32 GLOBAL* y) {
  u32 value = 1;
  asm volatile("s_atomic_add %0, %1, 0x0\n s_waitcnt lgkmcnt(0)" : "+s"(value) : "s"(y));  // scalar atomics are not implemented
  y[thread()] = x[thread()];
}

KERNEL(256) void mismatched_barrier(const u32 GLOBAL* x, u32 GLOBAL* y) {
  if (__builtin_amdgcn_readfirstlane(thread()) >= 64) __builtin_amdgcn_s_barrier();  // not for wave 0
  y[thread()] = x[thread()];
}

KERNEL(256) void no_end(const u32 GLOBAL* x, u32 GLOBAL* y) {
  while (__scoped_atomic_load_n(&x[thread()], __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE) != 0) {  // nobody clears it
  }
  y[thread()] = 0;
}
