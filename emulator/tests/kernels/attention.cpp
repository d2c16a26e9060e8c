#include "common.h"

// causal flash attention fwd, D=128, one wave handles 16 query rows, block = 4 waves = 64 rows, KV tile 32
// S^T = K Q^T is computed so that the softmax row lives in one lane column; O^T accumulates V^T P^T.
constexpr int D = 128;
static SHARED bf16 Ks[32][136];
static SHARED bf16 Vt[128][40];
KERNEL(256) void attn(const bf16 GLOBAL* Q, const bf16 GLOBAL* K, const bf16 GLOBAL* V, bf16 GLOBAL* O, int S, float scale_log2) {
  int t = thread(), w = t >> 6, l = t & 63, r = l & 15, g = l >> 4;
  int q0 = block_x() * 64 + w * 16;
  u64 hd = (u64)block_y() * S * D;
  Q += hd;
  K += hd;
  V += hd;
  O += hd;
  s16x4 q[8];
  for (int i = 0; i < 8; i++) q[i] = *(const s16x4 GLOBAL*)(Q + (u64)(q0 + r) * D + i * 16 + g * 4);
  f32x4 o[8] = {};
  float mx = -1e30f, sum = 0;
  int kend = block_x() * 64 + 64;
  for (int k0 = 0; k0 < kend; k0 += 32) {
    barrier();
    for (int p = 0; p < 2; p++) {
      int row = (t >> 4) + p * 16, col = (t & 15) * 8;
      *(LOCAL u32x4*)&Ks[row][col] = *(const u32x4 GLOBAL*)(K + (u64)(k0 + row) * D + col);
      bf16x8 v = *(const bf16x8 GLOBAL*)(V + (u64)(k0 + row) * D + col);
      for (int j = 0; j < 8; j++) Vt[col + j][row] = v[j];
    }
    barrier();
    f32x4 s[2] = {};
    for (int h = 0; h < 2; h++)
      for (int i = 0; i < 8; i++)
        s[h] = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(*(LOCAL s16x4*)&Ks[h * 16 + r][i * 16 + g * 4], q[i], s[h], 0, 0, 0);
    float m = mx;
    for (int h = 0; h < 2; h++)
      for (int e = 0; e < 4; e++) {
        int kpos = k0 + h * 16 + g * 4 + e;
        s[h][e] = kpos <= q0 + r ? s[h][e] * scale_log2 : -1e30f;
        m = __builtin_fmaxf(m, s[h][e]);
      }
    m = __builtin_fmaxf(m, as<float>(__builtin_amdgcn_ds_swizzle(as<i32>(m), 0x401F)));
#if defined(__gfx950__)
    {
      u32x2 x = __builtin_amdgcn_permlane32_swap(as<u32>(m), as<u32>(m), false, false);
      m = __builtin_fmaxf(as<float>(x[0]), as<float>(x[1]));
    }
#else
    m = __builtin_fmaxf(m, as<float>(__builtin_amdgcn_ds_bpermute((l ^ 32) << 2, as<i32>(m))));
#endif
    float a = __builtin_amdgcn_exp2f(mx - m);
    mx = m;
    sum *= a;
    for (int i = 0; i < 8; i++) o[i] *= a;
    for (int h = 0; h < 2; h++) {
      bf16x4 p;
      for (int e = 0; e < 4; e++) {
        float f = __builtin_amdgcn_exp2f(s[h][e] - m);
        sum += f;
        p[e] = (bf16)f;
      }
      for (int i = 0; i < 8; i++)
        o[i] = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(*(LOCAL s16x4*)&Vt[i * 16 + r][h * 16 + g * 4], as<s16x4>(p), o[i], 0, 0,
                                                         0);
    }
  }
  sum += as<float>(__builtin_amdgcn_ds_swizzle(as<i32>(sum), 0x401F));
  sum += as<float>(__builtin_amdgcn_ds_bpermute((l ^ 32) << 2, as<i32>(sum)));
  float inv = __builtin_amdgcn_rcpf(sum);
  for (int i = 0; i < 8; i++) {
    bf16x4 v;
    for (int e = 0; e < 4; e++) v[e] = (bf16)(o[i][e] * inv);
    *(bf16x4 GLOBAL*)(O + (u64)(q0 + r) * D + i * 16 + g * 4) = v;
  }
}
