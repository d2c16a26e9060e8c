#include "common.h"

// raw buffer loads with OOB returning zero: c[i] = a[i] + b[i+1] (b[n] reads 0)
KERNEL(256) void bufadd(float* a, float* b, float* c, int n) {
  auto ra = __builtin_amdgcn_make_buffer_rsrc(a, 0, n * 4, 0x00027000);
  auto rb = __builtin_amdgcn_make_buffer_rsrc(b, 0, n * 4, 0x00027000);
  auto rc = __builtin_amdgcn_make_buffer_rsrc(c, 0, n * 4, 0x00027000);
  int i = (block_x() * 256 + thread()) * 4;
  i32x4 va = __builtin_amdgcn_raw_buffer_load_b128(ra, i * 4, 0, 0);
  f32x4 fa = as<f32x4>(va), fo;
  for (int j = 0; j < 4; j++) fo[j] = fa[j] + as<float>(__builtin_amdgcn_raw_buffer_load_b32(rb, (i + j) * 4, 4, 0));
  __builtin_amdgcn_raw_buffer_store_b128(as<u32x4>(fo), rc, i * 4, 0, 0);
}
