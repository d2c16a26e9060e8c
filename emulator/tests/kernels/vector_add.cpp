#include "common.h"

KERNEL(256) void vadd(const float GLOBAL* a, const float GLOBAL* b, float GLOBAL* c, int n) {
  int i = block_x() * 256 + thread();
  if (i < n) c[i] = a[i] + b[i];
}
