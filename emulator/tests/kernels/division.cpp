#include "common.h"

// What the language's operators are made of on this hardware: v_div_scale, v_div_fmas, v_div_fixup, Newton steps.
template <class T> INLINE void divide_and_root(const T GLOBAL* a, const T GLOBAL* b, T GLOBAL* quotient, T GLOBAL* root) {
  int i = block_x() * 256 + thread();
  quotient[i] = a[i] / b[i];
  root[i] = __builtin_elementwise_sqrt(a[i]);
}

KERNEL(256) void divide_f32(const float GLOBAL* a, const float GLOBAL* b, float GLOBAL* q, float GLOBAL* r) {
  divide_and_root(a, b, q, r);
}
KERNEL(256) void divide_f64(const double GLOBAL* a, const double GLOBAL* b, double GLOBAL* q, double GLOBAL* r) {
  divide_and_root(a, b, q, r);
}
KERNEL(256) void divide_f16(const f16 GLOBAL* a, const f16 GLOBAL* b, f16 GLOBAL* q, f16 GLOBAL* r) {
  divide_and_root(a, b, q, r);
}
KERNEL(256) void divide_u32(const u32 GLOBAL* a, const u32 GLOBAL* b, u32 GLOBAL* q, u32 GLOBAL* r) {
  int i = block_x() * 256 + thread();
  q[i] = a[i] / b[i];
  r[i] = a[i] % b[i];
}
KERNEL(256) void divide_i64(const long GLOBAL* a, const long GLOBAL* b, long GLOBAL* q, long GLOBAL* r) {
  int i = block_x() * 256 + thread();
  q[i] = a[i] / b[i];
  r[i] = a[i] % b[i];
}
