#include "common.h"

// y[n - 1 - i] = x[i] + 1 for the elements from `first` on, with 64-bit indices.
KERNEL(256) void reverse_far(const u16 GLOBAL* x, u16 GLOBAL* y, u64 n, u64 first) {
  u64 i = first + block_x() * 256 + thread();
  if (i < n) y[n - 1 - i] = static_cast<u16>(x[i] + 1);
}
