#include "common.h"

static SHARED float tile[32][33];
KERNEL(256) void transpose(const float GLOBAL* a, float GLOBAL* c, int n) {  // 32x32 tile, 256 threads
  int tx = thread() & 31, ty = thread() >> 5, x0 = block_x() * 32, y0 = block_y() * 32;
  for (int i = 0; i < 4; i++) tile[ty + 8 * i][tx] = a[(y0 + ty + 8 * i) * n + x0 + tx];
  barrier();
  for (int i = 0; i < 4; i++) c[(x0 + ty + 8 * i) * n + y0 + tx] = tile[tx][ty + 8 * i];
}
