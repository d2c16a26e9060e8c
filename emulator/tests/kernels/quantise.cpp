#include "common.h"

// per-row dynamic quantisation f32 -> fp8 and back; 64 threads per row, 256 elements per row
KERNEL(64) void quant(const float GLOBAL* x, u32 GLOBAL* q, float GLOBAL* sc, float GLOBAL* y) {
  int l = thread();
  f32x4 v = *(const f32x4 GLOBAL*)(x + (u64)block_x() * 256 + l * 4);
  float m = 0;
  for (int j = 0; j < 4; j++) m = __builtin_fmaxf(m, __builtin_fabsf(v[j]));
  for (int s = 32; s; s >>= 1) m = __builtin_fmaxf(m, as<float>(__builtin_amdgcn_ds_bpermute((l ^ s) << 2, as<i32>(m))));
#if defined(__gfx950__)
  float mxv = 448.f;
#else
  float mxv = 240.f;
#endif
  float scale = m > 0 ? m / mxv : 1.f, is = 1.f / scale;
  int p = __builtin_amdgcn_cvt_pk_fp8_f32(__builtin_amdgcn_fmed3f(v[0] * is, -mxv, mxv),
                                          __builtin_amdgcn_fmed3f(v[1] * is, -mxv, mxv), 0, false);
  p = __builtin_amdgcn_cvt_pk_fp8_f32(__builtin_amdgcn_fmed3f(v[2] * is, -mxv, mxv),
                                      __builtin_amdgcn_fmed3f(v[3] * is, -mxv, mxv), p, true);
  q[block_x() * 64 + l] = p;
  if (l == 0) sc[block_x()] = scale;
  f32x2 lo = __builtin_amdgcn_cvt_pk_f32_fp8(p, false), hi = __builtin_amdgcn_cvt_pk_f32_fp8(p, true);
  f32x4 o = {lo[0] * scale, lo[1] * scale, hi[0] * scale, hi[1] * scale};
  *(f32x4 GLOBAL*)(y + (u64)block_x() * 256 + l * 4) = o;
}
