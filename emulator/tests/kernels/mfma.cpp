#include "common.h"

// one wave: D[16x16] = A[16x16] * B^T[16x16] (both row-major along k)
KERNEL(64) void mfma16(const bf16 GLOBAL* a, const bf16 GLOBAL* b, float GLOBAL* d) {
  int l = thread(), r = l & 15, g = l >> 4;
  bf16x4 av = *(const bf16x4 GLOBAL*)(a + r * 16 + 4 * g), bv = *(const bf16x4 GLOBAL*)(b + r * 16 + 4 * g);
  f32x4 acc = {0, 0, 0, 0};
  acc = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(as<s16x4>(av), as<s16x4>(bv), acc, 0, 0, 0);
  for (int i = 0; i < 4; i++) d[(4 * g + i) * 16 + r] = acc[i];
}
// D[32x32] = A[32x8] B^T[32x8]
KERNEL(64) void mfma32(const bf16 GLOBAL* a, const bf16 GLOBAL* b, float GLOBAL* d) {
  int l = thread(), r = l & 31, g = l >> 5;
  bf16x4 av = *(const bf16x4 GLOBAL*)(a + r * 8 + 4 * g), bv = *(const bf16x4 GLOBAL*)(b + r * 8 + 4 * g);
  f32x16 acc = {0};
  acc = __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(as<s16x4>(av), as<s16x4>(bv), acc, 0, 0, 0);
  for (int i = 0; i < 16; i++) d[(8 * (i / 4) + 4 * g + i % 4) * 32 + r] = acc[i];
}
// fp8 16x16x32, D = A[16x32] B^T[16x32]
KERNEL(64) void mfmafp8(const u8 GLOBAL* a, const u8 GLOBAL* b, float GLOBAL* d) {
  int l = thread(), r = l & 15, g = l >> 4;
  long av = *(const long GLOBAL*)(a + r * 32 + 8 * g), bv = *(const long GLOBAL*)(b + r * 32 + 8 * g);
  f32x4 acc = {0, 0, 0, 0};
  acc = __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(av, bv, acc, 0, 0, 0);
  for (int i = 0; i < 4; i++) d[(4 * g + i) * 16 + r] = acc[i];
}
