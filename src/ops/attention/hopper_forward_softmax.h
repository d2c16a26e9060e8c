/// @file
/// The softmax of a tile of logits in registers, one warpgroup: 64 queries x Keys keys, accumulator layout (tile/hopper/wgmma.h).
#pragma once

#include "src/ops/attention/hopper_common.h"
#include "src/tile/hopper/math.h"
#include "src/tile/hopper/reduce.h"

namespace jaxator::hopper::attention {

inline constexpr float kLog2E = 1.44269504088896340736f, kLn2 = 0.69314718055994530942f;

JAXATOR_DEVICE float minus_infinity() { return -__builtin_inff(); }

JAXATOR_DEVICE float maximum(float a, float b) {
  float most;
  asm("max.f32 %0, %1, %2;" : "=f"(most) : "f"(a), "f"(b));
  return most;
}

/// Over the four lanes that share a row.
JAXATOR_DEVICE float quad_maximum(float x) {
  x = maximum(x, shuffle_xor(x, 1));
  return maximum(x, shuffle_xor(x, 2));
}
JAXATOR_DEVICE float quad_sum(float x) {
  x += shuffle_xor(x, 1);
  return x + shuffle_xor(x, 2);
}

/// What a thread keeps of its two rows: 8 apart.
struct SoftmaxRows {
  float most[2];  // of the products so far, -inf at first
  float sum[2];   // of this thread's exponentials, relative to `most`

  JAXATOR_DEVICE void clear() { most[0] = most[1] = minus_infinity(), sum[0] = sum[1] = 0; }
};

/// s becomes exp2(scale * (s - most)), 0 where s is -inf. scale > 0. Returns whether what was summed under the old `most` must be
/// multiplied by `factor`: only once the largest has risen by 2^kLag, so hardly ever after the first tile. Probabilities then
/// reach 2^kLag, which costs no precision. In rows that have seen no key yet, `most` is -inf and the exponent counts from 0, so
/// that nothing becomes NaN.
inline constexpr float kLag = 8;
template <int N> JAXATOR_DEVICE bool softmax(float (&s)[N], SoftmaxRows& rows, float (&factor)[2], float scale) {
  bool rises[2];
#pragma unroll
  for (int h = 0; h < 2; h++) {
    float most = maximum(s[2 * h], s[2 * h + 1]);
#pragma unroll
    for (int i = 1; i < N / 4; i++) most = maximum(most, maximum(s[4 * i + 2 * h], s[4 * i + 2 * h + 1]));
    most = maximum(quad_maximum(most), rows.most[h]);
    rises[h] = (most - rows.most[h]) * scale > kLag;
    if (!rises[h]) most = rows.most[h];
    const float offset = most == minus_infinity() ? 0.0f : most * scale;
    factor[h] = rises[h] ? exp2_approx(rows.most[h] * scale - offset) : 1.0f;
    rows.most[h] = most;
    float sum = 0;
#pragma unroll
    for (int i = 0; i < N / 4; i++) {
      float &x = s[4 * i + 2 * h], &y = s[4 * i + 2 * h + 1];
      x = exp2_approx(x * scale - offset), y = exp2_approx(y * scale - offset);
      sum += x + y;
    }
    rows.sum[h] = rows.sum[h] * factor[h] + sum;
  }
  // The sums take part, though a NaN needs no factor: the vote then comes after all exponentials, and so does the wait that
  // follows it. Else the assembler moves a part of them below that wait, where they overlap with nothing: -20 %.
  return warp_any(rises[0] || rises[1] || !(rows.sum[0] + rows.sum[1] >= 0));
}

/// Probabilities as the 16-bit operand of the second product.
template <class T, int N> JAXATOR_DEVICE void pack_operand(u32 (&p)[N / 2], const float (&s)[N]) {
#pragma unroll
  for (int i = 0; i < N / 2; i++) p[i] = pack2<T>(s[2 * i], s[2 * i + 1]);
}

/// Where this thread's elements of a tile are: element (i, h, e) of s, s[4 i + 2 h + e], is the query that stands at
/// position + 8 h and key + 8 i + e.
struct Place {
  int position, key;
};

/// -inf where causal, window or lengths hide the key. keys: of this batch entry.
template <int N> JAXATOR_DEVICE void hide_outside(float (&s)[N], const Visibility& v, int keys, Place at) {
#pragma unroll
  for (int h = 0; h < 2; h++) {
    const Interval seen = keys_of_query(v, {0, keys, 0}, at.position + 8 * h);
    const int begin = seen.begin - at.key, end = seen.end - at.key;
#pragma unroll
    for (int i = 0; i < N / 4; i++)
#pragma unroll
      for (int e = 0; e < 2; e++)
        if (8 * i + e < begin || 8 * i + e >= end) s[4 * i + 2 * h + e] = minus_infinity();
  }
}

}  // namespace jaxator::hopper::attention
