#include "common.h"

static SHARED u32 buf[1024];
KERNEL(256) void gll(u32* a, u32 GLOBAL* c) {
  int t = thread(), w = t >> 6;
#if defined(__gfx950__)
  __builtin_amdgcn_global_load_lds((GLOBAL u32*)a + block_x() * 1024 + t * 4, (LOCAL u32*)(buf + w * 256), 16, 0, 0);
#else
  for (int i = 0; i < 4; i++)
    __builtin_amdgcn_global_load_lds((GLOBAL u32*)a + block_x() * 1024 + i * 256 + t, (LOCAL u32*)(buf + i * 256 + w * 64), 4, 0,
                                     0);
#endif
  __builtin_amdgcn_s_waitcnt(0);
  barrier();
  for (int i = 0; i < 4; i++) c[block_x() * 1024 + i * 256 + t] = buf[1023 - (i * 256 + t)];
}
