#include "common.h"

// y = x * rsqrt(mean(x^2)+eps) * w ; one block (256) per row; bf16 io
static SHARED float red[4];
template <int CTRL> INLINE float dpp(float v) {
  return as<float>(__builtin_amdgcn_update_dpp(0, as<i32>(v), CTRL, 0xf, 0xf, false));
}
INLINE float wave_sum(float v) {
  v += dpp<0xB1>(v);                                                // quad_perm 1,0,3,2
  v += dpp<0x4E>(v);                                                // quad_perm 2,3,0,1
  v += dpp<0x141>(v);                                               // row_half_mirror
  v += dpp<0x140>(v);                                               // row_mirror
  v += as<float>(__builtin_amdgcn_ds_swizzle(as<i32>(v), 0x401F));  // xor 16
#if defined(__gfx950__)
  u32x2 s = __builtin_amdgcn_permlane32_swap(as<u32>(v), as<u32>(v), false, false);
  return as<float>(s[0]) + as<float>(s[1]);
#else
  int lane = __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0));
  return v + as<float>(__builtin_amdgcn_ds_bpermute((lane ^ 32) << 2, as<i32>(v)));
#endif
}
KERNEL(256) void rmsnorm(const bf16 GLOBAL* x, const bf16 GLOBAL* w, bf16 GLOBAL* y, int n, float eps) {
  const bf16 GLOBAL* xr = x + (u64)block_x() * n;
  bf16 GLOBAL* yr = y + (u64)block_x() * n;
  float s = 0;
  for (int i = thread() * 8; i < n; i += 2048) {
    bf16x8 v = *(const bf16x8 GLOBAL*)(xr + i);
    for (int j = 0; j < 8; j++) {
      float f = v[j];
      s += f * f;
    }
  }
  s = wave_sum(s);
  if ((thread() & 63) == 0) red[thread() >> 6] = s;
  barrier();
  s = red[0] + red[1] + red[2] + red[3];
  float r = __builtin_amdgcn_rsqf(s / n + eps);
  for (int i = thread() * 8; i < n; i += 2048) {
    bf16x8 v = *(const bf16x8 GLOBAL*)(xr + i), wv = *(const bf16x8 GLOBAL*)(w + i), o;
    for (int j = 0; j < 8; j++) o[j] = (bf16)((float)v[j] * r * (float)wv[j]);
    *(bf16x8 GLOBAL*)(yr + i) = o;
  }
}
