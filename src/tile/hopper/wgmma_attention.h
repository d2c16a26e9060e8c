/// @file
/// wgmma as attention's backward pass needs it, where registers are short: products that only write their accumulators, so that
/// nothing is live in them before; descriptors as one 32-bit register, from which each step of k is computed inside the asm text,
/// where no optimiser sees it and moves it out of a loop into a register of its own.
#pragma once

#include "src/tile/hopper/wgmma.h"

namespace jaxator::hopper {

/// Upper half of every descriptor here: 128-byte swizzle, groups of eight rows 1024 bytes apart.
inline constexpr u32 kDescriptorHigh = 0x40000040;

/// Lower half of the descriptor of an operand whose rows are k. Advancing k by 32 bytes adds 2.
JAXATOR_DEVICE u32 low_descriptor(u32 address) { return address >> 4 | 1 << 16; }

/// Lower half for an operand with k as its slow dimension: columns in groups of 64 that lie `group_bytes` apart. Advancing k by
/// 16 rows adds 128.
JAXATOR_DEVICE u32 low_descriptor_transposed(u32 address, u32 group_bytes) { return address >> 4 | (group_bytes >> 4) << 16; }

/// One product of 16 elements of k, by width.
template <int N> struct WgmmaStep;

// clang-format off
#define JAXATOR_TEN(i) "%" #i "0,%" #i "1,%" #i "2,%" #i "3,%" #i "4,%" #i "5,%" #i "6,%" #i "7,%" #i "8,%" #i "9"
#define JAXATOR_REGISTERS_64 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9," JAXATOR_TEN(1) "," JAXATOR_TEN(2) ",%30,%31"
#define JAXATOR_REGISTERS_128 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9," JAXATOR_TEN(1) "," JAXATOR_TEN(2) "," JAXATOR_TEN(3) "," \
  JAXATOR_TEN(4) "," JAXATOR_TEN(5) ",%60,%61,%62,%63"
#define JAXATOR_EIGHT(c, i) c(d[i]), c(d[i + 1]), c(d[i + 2]), c(d[i + 3]), c(d[i + 4]), c(d[i + 5]), c(d[i + 6]), c(d[i + 7])
#define JAXATOR_OPERANDS_64(c) JAXATOR_EIGHT(c, 0), JAXATOR_EIGHT(c, 8), JAXATOR_EIGHT(c, 16), JAXATOR_EIGHT(c, 24)
#define JAXATOR_OPERANDS_128(c) JAXATOR_OPERANDS_64(c), JAXATOR_EIGHT(c, 32), JAXATOR_EIGHT(c, 40), JAXATOR_EIGHT(c, 48), JAXATOR_EIGHT(c, 56)
#define JAXATOR_PRODUCT(n, type, sum) "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" JAXATOR_REGISTERS_##n "}, " sum ";\n}"
// clang-format on

#define JAXATOR_WGMMA_SHARED(n, type, constraint, accumulate)                                                          \
  asm volatile(                                                                                                        \
      "{\n.reg .pred p;\n.reg .b32 x, y;\n.reg .b64 a, b;\nadd.u32 x, %[a], %[step_a];\nadd.u32 y, %[b], %[step_b];\n" \
      "mov.b64 a, {x, %[high]};\nmov.b64 b, {y, %[high]};\nsetp.ne.b32 p, " accumulate                                 \
      ", 0;\n" JAXATOR_PRODUCT(n, type, "a, b, p, 1, 1, %[ta], %[tb]")                                                 \
      : JAXATOR_OPERANDS_##n(constraint)                                                                               \
      : [a] "r"(a), [b] "r"(b), [step_a] "n"(step_a), [step_b] "n"(step_b), [high] "n"(kDescriptorHigh),               \
        [ta] "n"(int{TransposeA}), [tb] "n"(int{TransposeB})                                                           \
      : "memory")

#define JAXATOR_WGMMA_REGISTERS(n, type)                                                                                 \
  asm volatile("{\n.reg .b32 y;\n.reg .b64 b;\nadd.u32 y, %[b], %[step_b];\nmov.b64 b, {y, %[high]};\n" JAXATOR_PRODUCT( \
                   n, type, "{%[a0], %[a1], %[a2], %[a3]}, b, 1, 1, 1, 1")                                               \
               : JAXATOR_OPERANDS_##n("+f")                                                                              \
               : [a0] "r"(a[0]), [a1] "r"(a[1]), [a2] "r"(a[2]), [a3] "r"(a[3]), [b] "r"(b), [step_b] "n"(step_b),       \
                 [high] "n"(kDescriptorHigh)                                                                             \
               : "memory")

#define JAXATOR_WGMMA_STEP(n)                                                                                          \
  template <> struct WgmmaStep<n> {                                                                                    \
    template <class T, bool TransposeA, bool TransposeB>                                                               \
    JAXATOR_DEVICE static void first(float (&d)[n / 2], u32 a, u32 b) {                                                \
      constexpr u32 step_a = 0, step_b = 0;                                                                            \
      if constexpr (kIsBf16<T>)                                                                                        \
        JAXATOR_WGMMA_SHARED(n, "bf16", "=f", "0");                                                                    \
      else                                                                                                             \
        JAXATOR_WGMMA_SHARED(n, "f16", "=f", "0");                                                                     \
    }                                                                                                                  \
    template <class T, bool TransposeA, bool TransposeB>                                                               \
    JAXATOR_DEVICE static void more(float (&d)[n / 2], u32 a, u32 step_a, u32 b, u32 step_b) {                         \
      if constexpr (kIsBf16<T>)                                                                                        \
        JAXATOR_WGMMA_SHARED(n, "bf16", "+f", "1");                                                                    \
      else                                                                                                             \
        JAXATOR_WGMMA_SHARED(n, "f16", "+f", "1");                                                                     \
    }                                                                                                                  \
    template <class T> JAXATOR_DEVICE static void registers(float (&d)[n / 2], const u32 (&a)[4], u32 b, u32 step_b) { \
      if constexpr (kIsBf16<T>)                                                                                        \
        JAXATOR_WGMMA_REGISTERS(n, "bf16");                                                                            \
      else                                                                                                             \
        JAXATOR_WGMMA_REGISTERS(n, "f16");                                                                             \
    }                                                                                                                  \
  };
JAXATOR_WGMMA_STEP(64)
JAXATOR_WGMMA_STEP(128)

#undef JAXATOR_TEN
#undef JAXATOR_REGISTERS_64
#undef JAXATOR_REGISTERS_128
#undef JAXATOR_EIGHT
#undef JAXATOR_OPERANDS_64
#undef JAXATOR_OPERANDS_128
#undef JAXATOR_PRODUCT
#undef JAXATOR_WGMMA_SHARED
#undef JAXATOR_WGMMA_REGISTERS
#undef JAXATOR_WGMMA_STEP

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
  WgmmaStep<2 * Registers>::template first<T, ta, tb>(d, a, b);
#pragma unroll
  for (u32 step = 1; step < kSteps; step++)
    WgmmaStep<2 * Registers>::template more<T, ta, tb>(d, a, along_a.at(step), b, along_b.at(step));
  wgmma_commit();
}

/// d += A B^T with A in registers and k as the slow dimension of B, as one committed group.
template <class T, int Registers, int Words>
JAXATOR_DEVICE void multiply_registers(float (&d)[Registers], const u32 (&a)[Words], u32 b) {
  wgmma_fence();
#pragma unroll
  for (int i = 0; i < Words / 4; i++) {
    const u32 step[4] = {a[4 * i], a[4 * i + 1], a[4 * i + 2], a[4 * i + 3]};
    WgmmaStep<2 * Registers>::template registers<T>(d, step, b, DownRows{}.at(i));
  }
  wgmma_commit();
}

}  // namespace jaxator::hopper
