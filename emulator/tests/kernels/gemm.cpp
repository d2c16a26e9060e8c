#include "common.h"

// C[M,N] = A[M,K] * B[N,K]^T, bf16 in/out, 128x128x32 tile, 4 waves as 2x2, each 64x64 of 16x16x16 MFMA
static SHARED bf16 As[128][40], Bs[128][40];
KERNEL(256) void gemm(const bf16 GLOBAL* A, const bf16 GLOBAL* B, bf16 GLOBAL* C, int M, int N, int K) {
  int t = thread(), w = t >> 6, l = t & 63, r = l & 15, g = l >> 4;
  int m0 = block_y() * 128, n0 = block_x() * 128, wm = (w >> 1) * 64, wn = (w & 1) * 64;
  f32x4 acc[4][4] = {};
  int lr = t >> 2, lc = (t & 3) * 8;
  const bf16 GLOBAL* ap = A + (u64)(m0 + lr) * K + lc;
  const bf16 GLOBAL* bp = B + (u64)(n0 + lr) * K + lc;
  for (int k0 = 0; k0 < K; k0 += 32) {
    u32x4 a0 = *(const u32x4 GLOBAL*)(ap + k0), a1 = *(const u32x4 GLOBAL*)(ap + (u64)64 * K + k0);
    u32x4 b0 = *(const u32x4 GLOBAL*)(bp + k0), b1 = *(const u32x4 GLOBAL*)(bp + (u64)64 * K + k0);
    barrier();
    *(LOCAL u32x4*)&As[lr][lc] = a0;
    *(LOCAL u32x4*)&As[lr + 64][lc] = a1;
    *(LOCAL u32x4*)&Bs[lr][lc] = b0;
    *(LOCAL u32x4*)&Bs[lr + 64][lc] = b1;
    barrier();
#if defined(__gfx950__)
    bf16x8 av[4], bv[4];
    for (int i = 0; i < 4; i++) {
      av[i] = *(LOCAL bf16x8*)&As[wm + i * 16 + r][g * 8];
      bv[i] = *(LOCAL bf16x8*)&Bs[wn + i * 16 + r][g * 8];
    }
    for (int i = 0; i < 4; i++)
      for (int j = 0; j < 4; j++) acc[i][j] = __builtin_amdgcn_mfma_f32_16x16x32_bf16(av[i], bv[j], acc[i][j], 0, 0, 0);
#else
    for (int kk = 0; kk < 2; kk++) {
      s16x4 av[4], bv[4];
      for (int i = 0; i < 4; i++) {
        av[i] = *(LOCAL s16x4*)&As[wm + i * 16 + r][kk * 16 + g * 4];
        bv[i] = *(LOCAL s16x4*)&Bs[wn + i * 16 + r][kk * 16 + g * 4];
      }
      for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) acc[i][j] = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(av[i], bv[j], acc[i][j], 0, 0, 0);
    }
#endif
  }
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++)
      for (int e = 0; e < 4; e++) C[(u64)(m0 + wm + i * 16 + 4 * g + e) * N + n0 + wn + j * 16 + r] = (bf16)acc[i][j][e];
}
