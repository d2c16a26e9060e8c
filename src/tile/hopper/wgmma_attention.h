/// @file
/// wgmma as attention's backward pass needs it, where registers are short: products that only write their accumulators, so that
/// nothing is live in them before, and descriptors as one 32-bit register (the upper half is a constant).
#pragma once

#include "src/tile/hopper/wgmma.h"

namespace jaxator::hopper {

/// Upper half of every descriptor here: 128-byte swizzle, groups of eight rows 1024 bytes apart.
inline constexpr u32 kDescriptorHigh = 0x40000040;

/// Lower half of the descriptor of an operand whose rows are k. Advancing k by 32 bytes adds 2.
JAXATOR_DEVICE u32 low_descriptor(u32 address) { return address >> 4 | 1 << 16; }

/// Lower half for an operand with k as its slow dimension: columns in groups of 64 that lie `group_bytes` apart. Advancing k by 16
/// rows adds 128.
JAXATOR_DEVICE u32 low_descriptor_transposed(u32 address, u32 group_bytes) { return address >> 4 | (group_bytes >> 4) << 16; }

JAXATOR_DEVICE u64 whole_descriptor(u32 low) { return u64{kDescriptorHigh} << 32 | low; }

template <int N> struct WgmmaFirst;  // by width

// clang-format off
#define JAXATOR_REGISTERS_8(i) "%" #i "0,%" #i "1,%" #i "2,%" #i "3,%" #i "4,%" #i "5,%" #i "6,%" #i "7,%" #i "8,%" #i "9"
#define JAXATOR_REGISTERS_0 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9"
#define JAXATOR_FIRST_REGISTERS_64 JAXATOR_REGISTERS_0 "," JAXATOR_REGISTERS_8(1) "," JAXATOR_REGISTERS_8(2) ",%30,%31"
#define JAXATOR_FIRST_REGISTERS_128 JAXATOR_REGISTERS_0 "," JAXATOR_REGISTERS_8(1) "," JAXATOR_REGISTERS_8(2) "," \
  JAXATOR_REGISTERS_8(3) "," JAXATOR_REGISTERS_8(4) "," JAXATOR_REGISTERS_8(5) ",%60,%61,%62,%63"
#define JAXATOR_WRITES_8(i) "=f"(d[i]), "=f"(d[i + 1]), "=f"(d[i + 2]), "=f"(d[i + 3]), "=f"(d[i + 4]), "=f"(d[i + 5]), "=f"(d[i + 6]), "=f"(d[i + 7])
#define JAXATOR_WRITES_64 JAXATOR_WRITES_8(0), JAXATOR_WRITES_8(8), JAXATOR_WRITES_8(16), JAXATOR_WRITES_8(24)
#define JAXATOR_WRITES_128 JAXATOR_WRITES_64, JAXATOR_WRITES_8(32), JAXATOR_WRITES_8(40), JAXATOR_WRITES_8(48), JAXATOR_WRITES_8(56)
// clang-format on

#define JAXATOR_WGMMA_FIRST(n, type)                                                                         \
  asm volatile(                                                                                              \
      "{\n.reg .pred p;\n.reg .b64 a, b;\nmov.b64 a, {%[a], %[high]};\nmov.b64 b, {%[b], %[high]};\n"        \
      "setp.ne.b32 p, 0, 0;\nwgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type                  \
      " {" JAXATOR_FIRST_REGISTERS_##n "}, a, b, p, 1, 1, %[ta], %[tb];\n}"                                  \
      : JAXATOR_WRITES_##n                                                                                   \
      : [a] "r"(a), [b] "r"(b), [high] "n"(kDescriptorHigh), [ta] "n"(int{TransposeA}), [tb] "n"(int{TransposeB}) \
      : "memory")

#define JAXATOR_WGMMA_FIRST_SIZE(n)                                                             \
  template <> struct WgmmaFirst<n> {                                                            \
    template <class T, bool TransposeA, bool TransposeB>                                        \
    JAXATOR_DEVICE static void shared(float (&d)[n / 2], u32 a, u32 b) {                        \
      if constexpr (kIsBf16<T>)                                                                 \
        JAXATOR_WGMMA_FIRST(n, "bf16");                                                         \
      else                                                                                      \
        JAXATOR_WGMMA_FIRST(n, "f16");                                                          \
    }                                                                                           \
  };
JAXATOR_WGMMA_FIRST_SIZE(64)
JAXATOR_WGMMA_FIRST_SIZE(128)

#undef JAXATOR_REGISTERS_8
#undef JAXATOR_REGISTERS_0
#undef JAXATOR_FIRST_REGISTERS_64
#undef JAXATOR_FIRST_REGISTERS_128
#undef JAXATOR_WRITES_8
#undef JAXATOR_WRITES_64
#undef JAXATOR_WRITES_128
#undef JAXATOR_WGMMA_FIRST
#undef JAXATOR_WGMMA_FIRST_SIZE

/// Where a product's operand continues after `step` times 16 elements of k, in descriptor units: along rows of 64 elements that
/// follow each other `group_bytes` apart, or down 16 rows of 128 bytes.
struct AlongRows {
  u32 group_bytes;
  JAXATOR_DEVICE constexpr u32 at(u32 step) const { return step % 4 * 2 + step / 4 * (group_bytes >> 4); }
};
struct DownRows {
  JAXATOR_DEVICE constexpr u32 at(u32 step) const { return step * 128; }
};
template <class Walk> inline constexpr bool kTransposed = false;
template <> inline constexpr bool kTransposed<DownRows> = true;

/// d = A B^T over kSteps * 16 elements of k, as one committed group. Operands by the lower halves of their descriptors.
template <class T, int kSteps, class WalkA, class WalkB, int Registers>
JAXATOR_DEVICE void multiply(float (&d)[Registers], u32 a, WalkA along_a, u32 b, WalkB along_b) {
  constexpr bool ta = kTransposed<WalkA>, tb = kTransposed<WalkB>;
  wgmma_fence();
  WgmmaFirst<2 * Registers>::template shared<T, ta, tb>(d, a, b);
#pragma unroll
  for (u32 step = 1; step < kSteps; step++)
    wgmma<T, ta, tb>(d, whole_descriptor(a + along_a.at(step)), whole_descriptor(b + along_b.at(step)));
  wgmma_commit();
}

/// d += A B^T with A in registers and k as the slow dimension of B, as one committed group.
template <class T, int Registers, int Words>
JAXATOR_DEVICE void multiply_registers(float (&d)[Registers], const u32 (&a)[Words], u32 b) {
  wgmma_fence();
#pragma unroll
  for (int i = 0; i < Words / 4; i++)
    wgmma_registers<T, true>(d, a[4 * i], a[4 * i + 1], a[4 * i + 2], a[4 * i + 3], whole_descriptor(b + DownRows{}.at(i)));
  wgmma_commit();
}

}  // namespace jaxator::hopper
