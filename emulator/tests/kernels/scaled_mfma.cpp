#include "common.h"

#if defined(__gfx950__)
// D[16x16] = sum_k A*2^sa * B*2^sb ; A,B: 16x128 fp4 (64 bytes a row), scales 16x4 e8m0
KERNEL(64) void mxfp4(const u8 GLOBAL* a, const u8 GLOBAL* b, const u8 GLOBAL* sa, const u8 GLOBAL* sb, float GLOBAL* d) {
  int l = thread(), r = l & 15, g = l >> 4;
  i32x4 av = *(const i32x4 GLOBAL*)(a + r * 64 + g * 16), bv = *(const i32x4 GLOBAL*)(b + r * 64 + g * 16);
  i32x8 a8 = {av[0], av[1], av[2], av[3], 0, 0, 0, 0}, b8 = {bv[0], bv[1], bv[2], bv[3], 0, 0, 0, 0};
  f32x4 acc = {0, 0, 0, 0};
  acc = __builtin_amdgcn_mfma_scale_f32_16x16x128_f8f6f4(a8, b8, acc, 4, 4, 0, sa[r * 4 + g], 0, sb[r * 4 + g]);
  for (int i = 0; i < 4; i++) d[(4 * g + i) * 16 + r] = acc[i];
}
KERNEL(64) void mxfp8(const u8 GLOBAL* a, const u8 GLOBAL* b, const u8 GLOBAL* sa, const u8 GLOBAL* sb, float GLOBAL* d) {
  int l = thread(), r = l & 15, g = l >> 4;
  i32x8 av, bv;  // 8-bit operands: lane group g holds k = 16g.. and 64 + 16g..; scale of block k/32 sits in lane group k/32
  for (int h = 0; h < 2; h++) {
    *((i32x4*)&av + h) = *(const i32x4 GLOBAL*)(a + r * 128 + h * 64 + g * 16);
    *((i32x4*)&bv + h) = *(const i32x4 GLOBAL*)(b + r * 128 + h * 64 + g * 16);
  }
  f32x4 acc = {0, 0, 0, 0};
  acc = __builtin_amdgcn_mfma_scale_f32_16x16x128_f8f6f4(av, bv, acc, 0, 0, 0, sa[r * 4 + g], 0, sb[r * 4 + g]);
  for (int i = 0; i < 4; i++) d[(4 * g + i) * 16 + r] = acc[i];
}
#endif
