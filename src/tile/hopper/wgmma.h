/// @file
/// wgmma: a warpgroup multiplies A [64, k] by B [N, k]^T into float32 accumulators in its registers. A comes from shared memory
/// or from registers, B from shared memory, both described by `SharedMatrix` descriptors.
///
/// Accumulator layout (PTX reference, wgmma m64nN D fragment): thread t of the warpgroup holds rows 16 * (t / 32) + t % 32 / 4
/// (and + 8), columns 8 * i + 2 * (t % 4) and + 1: d[4 i], d[4 i + 1] of the first row, d[4 i + 2], d[4 i + 3] of the second.
///
/// Use: wgmma_fence, one or more products, wgmma_commit, ..., wgmma_wait on the accumulators before they are read. Loops
/// around products must be unrolled wherever they index accumulators; the build refuses PTX that the assembler would serialise.
#pragma once

#include "src/tile/hopper/element.h"

namespace jaxator::hopper {

struct Tf32 {};  // float32 in memory, of which the matrix unit reads 19 bits

/// Elements of k in one product.
template <class T> inline constexpr int kWgmmaDepth = 16;
template <> inline constexpr int kWgmmaDepth<Tf32> = 8;

JAXATOR_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
JAXATOR_DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int Groups> JAXATOR_DEVICE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Groups) : "memory");
}

template <class T> inline constexpr bool kIsBf16 = false;
template <> inline constexpr bool kIsBf16<Bf16> = true;
template <class T> inline constexpr bool kIsTf32 = false;
template <> inline constexpr bool kIsTf32<Tf32> = true;

template <int N> struct Wgmma;  // one specialisation for each width

// Lists of operands, eight registers a line.
// clang-format off
#define JAXATOR_R0 "%0,%1,%2,%3,%4,%5,%6,%7"
#define JAXATOR_R1 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define JAXATOR_R2 ",%16,%17,%18,%19,%20,%21,%22,%23"
#define JAXATOR_R3 ",%24,%25,%26,%27,%28,%29,%30,%31"
#define JAXATOR_R4 ",%32,%33,%34,%35,%36,%37,%38,%39"
#define JAXATOR_R5 ",%40,%41,%42,%43,%44,%45,%46,%47"
#define JAXATOR_R6 ",%48,%49,%50,%51,%52,%53,%54,%55"
#define JAXATOR_R7 ",%56,%57,%58,%59,%60,%61,%62,%63"
#define JAXATOR_R8 ",%64,%65,%66,%67,%68,%69,%70,%71"
#define JAXATOR_R9 ",%72,%73,%74,%75,%76,%77,%78,%79"
#define JAXATOR_R10 ",%80,%81,%82,%83,%84,%85,%86,%87"
#define JAXATOR_R11 ",%88,%89,%90,%91,%92,%93,%94,%95"
#define JAXATOR_R12 ",%96,%97,%98,%99,%100,%101,%102,%103"
#define JAXATOR_R13 ",%104,%105,%106,%107,%108,%109,%110,%111"
#define JAXATOR_R14 ",%112,%113,%114,%115,%116,%117,%118,%119"
#define JAXATOR_R15 ",%120,%121,%122,%123,%124,%125,%126,%127"
#define JAXATOR_A0 "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
#define JAXATOR_A1 "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
#define JAXATOR_A2 "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23])
#define JAXATOR_A3 "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
#define JAXATOR_A4 "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39])
#define JAXATOR_A5 "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
#define JAXATOR_A6 "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55])
#define JAXATOR_A7 "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
#define JAXATOR_A8 "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71])
#define JAXATOR_A9 "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79])
#define JAXATOR_A10 "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87])
#define JAXATOR_A11 "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
#define JAXATOR_A12 "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103])
#define JAXATOR_A13 "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111])
#define JAXATOR_A14 "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119])
#define JAXATOR_A15 "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
#define JAXATOR_REGISTERS_16 JAXATOR_R0
#define JAXATOR_ACCUMULATORS_16 JAXATOR_A0
#define JAXATOR_REGISTERS_32 JAXATOR_R0 JAXATOR_R1
#define JAXATOR_ACCUMULATORS_32 JAXATOR_A0, JAXATOR_A1
#define JAXATOR_REGISTERS_48 JAXATOR_R0 JAXATOR_R1 JAXATOR_R2
#define JAXATOR_ACCUMULATORS_48 JAXATOR_A0, JAXATOR_A1, JAXATOR_A2
#define JAXATOR_REGISTERS_64 JAXATOR_R0 JAXATOR_R1 JAXATOR_R2 JAXATOR_R3
#define JAXATOR_ACCUMULATORS_64 JAXATOR_A0, JAXATOR_A1, JAXATOR_A2, JAXATOR_A3
#define JAXATOR_REGISTERS_80 JAXATOR_R0 JAXATOR_R1 JAXATOR_R2 JAXATOR_R3 JAXATOR_R4
#define JAXATOR_ACCUMULATORS_80 JAXATOR_A0, JAXATOR_A1, JAXATOR_A2, JAXATOR_A3, JAXATOR_A4
#define JAXATOR_REGISTERS_96 JAXATOR_R0 JAXATOR_R1 JAXATOR_R2 JAXATOR_R3 JAXATOR_R4 JAXATOR_R5
#define JAXATOR_ACCUMULATORS_96 JAXATOR_A0, JAXATOR_A1, JAXATOR_A2, JAXATOR_A3, JAXATOR_A4, JAXATOR_A5
#define JAXATOR_REGISTERS_112 JAXATOR_R0 JAXATOR_R1 JAXATOR_R2 JAXATOR_R3 JAXATOR_R4 JAXATOR_R5 JAXATOR_R6
#define JAXATOR_ACCUMULATORS_112 JAXATOR_A0, JAXATOR_A1, JAXATOR_A2, JAXATOR_A3, JAXATOR_A4, JAXATOR_A5, JAXATOR_A6
#define JAXATOR_REGISTERS_128 JAXATOR_R0 JAXATOR_R1 JAXATOR_R2 JAXATOR_R3 JAXATOR_R4 JAXATOR_R5 JAXATOR_R6 JAXATOR_R7
#define JAXATOR_ACCUMULATORS_128 JAXATOR_A0, JAXATOR_A1, JAXATOR_A2, JAXATOR_A3, JAXATOR_A4, JAXATOR_A5, JAXATOR_A6, JAXATOR_A7
#define JAXATOR_REGISTERS_144 JAXATOR_R0 JAXATOR_R1 JAXATOR_R2 JAXATOR_R3 JAXATOR_R4 JAXATOR_R5 JAXATOR_R6 JAXATOR_R7 JAXATOR_R8
#define JAXATOR_ACCUMULATORS_144 JAXATOR_A0, JAXATOR_A1, JAXATOR_A2, JAXATOR_A3, JAXATOR_A4, JAXATOR_A5, JAXATOR_A6, JAXATOR_A7, JAXATOR_A8
#define JAXATOR_REGISTERS_160 JAXATOR_R0 JAXATOR_R1 JAXATOR_R2 JAXATOR_R3 JAXATOR_R4 JAXATOR_R5 JAXATOR_R6 JAXATOR_R7 JAXATOR_R8 JAXATOR_R9
#define JAXATOR_ACCUMULATORS_160 JAXATOR_A0, JAXATOR_A1, JAXATOR_A2, JAXATOR_A3, JAXATOR_A4, JAXATOR_A5, JAXATOR_A6, JAXATOR_A7, JAXATOR_A8, JAXATOR_A9
#define JAXATOR_REGISTERS_176 JAXATOR_R0 JAXATOR_R1 JAXATOR_R2 JAXATOR_R3 JAXATOR_R4 JAXATOR_R5 JAXATOR_R6 JAXATOR_R7 JAXATOR_R8 JAXATOR_R9 JAXATOR_R10
#define JAXATOR_ACCUMULATORS_176 JAXATOR_A0, JAXATOR_A1, JAXATOR_A2, JAXATOR_A3, JAXATOR_A4, JAXATOR_A5, JAXATOR_A6, JAXATOR_A7, JAXATOR_A8, JAXATOR_A9, JAXATOR_A10
#define JAXATOR_REGISTERS_192 JAXATOR_R0 JAXATOR_R1 JAXATOR_R2 JAXATOR_R3 JAXATOR_R4 JAXATOR_R5 JAXATOR_R6 JAXATOR_R7 JAXATOR_R8 JAXATOR_R9 JAXATOR_R10 JAXATOR_R11
#define JAXATOR_ACCUMULATORS_192 JAXATOR_A0, JAXATOR_A1, JAXATOR_A2, JAXATOR_A3, JAXATOR_A4, JAXATOR_A5, JAXATOR_A6, JAXATOR_A7, JAXATOR_A8, JAXATOR_A9, JAXATOR_A10, JAXATOR_A11
#define JAXATOR_REGISTERS_208 JAXATOR_R0 JAXATOR_R1 JAXATOR_R2 JAXATOR_R3 JAXATOR_R4 JAXATOR_R5 JAXATOR_R6 JAXATOR_R7 JAXATOR_R8 JAXATOR_R9 JAXATOR_R10 JAXATOR_R11 JAXATOR_R12
#define JAXATOR_ACCUMULATORS_208 JAXATOR_A0, JAXATOR_A1, JAXATOR_A2, JAXATOR_A3, JAXATOR_A4, JAXATOR_A5, JAXATOR_A6, JAXATOR_A7, JAXATOR_A8, JAXATOR_A9, JAXATOR_A10, JAXATOR_A11, JAXATOR_A12
#define JAXATOR_REGISTERS_224 JAXATOR_R0 JAXATOR_R1 JAXATOR_R2 JAXATOR_R3 JAXATOR_R4 JAXATOR_R5 JAXATOR_R6 JAXATOR_R7 JAXATOR_R8 JAXATOR_R9 JAXATOR_R10 JAXATOR_R11 JAXATOR_R12 JAXATOR_R13
#define JAXATOR_ACCUMULATORS_224 JAXATOR_A0, JAXATOR_A1, JAXATOR_A2, JAXATOR_A3, JAXATOR_A4, JAXATOR_A5, JAXATOR_A6, JAXATOR_A7, JAXATOR_A8, JAXATOR_A9, JAXATOR_A10, JAXATOR_A11, JAXATOR_A12, JAXATOR_A13
#define JAXATOR_REGISTERS_240 JAXATOR_R0 JAXATOR_R1 JAXATOR_R2 JAXATOR_R3 JAXATOR_R4 JAXATOR_R5 JAXATOR_R6 JAXATOR_R7 JAXATOR_R8 JAXATOR_R9 JAXATOR_R10 JAXATOR_R11 JAXATOR_R12 JAXATOR_R13 JAXATOR_R14
#define JAXATOR_ACCUMULATORS_240 JAXATOR_A0, JAXATOR_A1, JAXATOR_A2, JAXATOR_A3, JAXATOR_A4, JAXATOR_A5, JAXATOR_A6, JAXATOR_A7, JAXATOR_A8, JAXATOR_A9, JAXATOR_A10, JAXATOR_A11, JAXATOR_A12, JAXATOR_A13, JAXATOR_A14
#define JAXATOR_REGISTERS_256 JAXATOR_R0 JAXATOR_R1 JAXATOR_R2 JAXATOR_R3 JAXATOR_R4 JAXATOR_R5 JAXATOR_R6 JAXATOR_R7 JAXATOR_R8 JAXATOR_R9 JAXATOR_R10 JAXATOR_R11 JAXATOR_R12 JAXATOR_R13 JAXATOR_R14 JAXATOR_R15
#define JAXATOR_ACCUMULATORS_256 JAXATOR_A0, JAXATOR_A1, JAXATOR_A2, JAXATOR_A3, JAXATOR_A4, JAXATOR_A5, JAXATOR_A6, JAXATOR_A7, JAXATOR_A8, JAXATOR_A9, JAXATOR_A10, JAXATOR_A11, JAXATOR_A12, JAXATOR_A13, JAXATOR_A14, JAXATOR_A15
// clang-format on

#define JAXATOR_WGMMA(n, depth, type, a, transposes, ...)                                           \
  asm volatile(                                                                                     \
      "{\n.reg .pred p;\nsetp.ne.b32 p, %[accumulate], 0;\n"                                        \
      "wgmma.mma_async.sync.aligned.m64n" #n depth ".f32." type "." type " {" JAXATOR_REGISTERS_##n \
      "}, " a ", %[b], p, 1, 1" transposes ";\n}"                                                   \
      : JAXATOR_ACCUMULATORS_##n                                                                    \
      : __VA_ARGS__, [b] "l"(b), [accumulate] "r"(accumulate)                                       \
      : "memory")

#define JAXATOR_WGMMA_SIZE(n)                                                                                                \
  template <> struct Wgmma<n> {                                                                                              \
    template <class T, bool TransposeA, bool TransposeB>                                                                     \
    JAXATOR_DEVICE static void shared(float (&d)[n / 2], u64 a, u64 b, u32 accumulate) {                                     \
      if constexpr (kIsTf32<T>)                                                                                              \
        JAXATOR_WGMMA(n, "k8", "tf32", "%[a]", "", [a] "l"(a));                                                              \
      else if constexpr (kIsBf16<T>)                                                                                         \
        JAXATOR_WGMMA(n, "k16", "bf16", "%[a]",                                                                              \
                      ", %[ta], %[tb]", [a] "l"(a), [ta] "n"(int{TransposeA}), [tb] "n"(int{TransposeB}));                   \
      else                                                                                                                   \
        JAXATOR_WGMMA(n, "k16", "f16", "%[a]",                                                                               \
                      ", %[ta], %[tb]", [a] "l"(a), [ta] "n"(int{TransposeA}), [tb] "n"(int{TransposeB}));                   \
    }                                                                                                                        \
    template <class T, bool TransposeB>                                                                                      \
    JAXATOR_DEVICE static void registers(float (&d)[n / 2], u32 a0, u32 a1, u32 a2, u32 a3, u64 b, u32 accumulate) {         \
      if constexpr (kIsTf32<T>)                                                                                              \
        JAXATOR_WGMMA(n, "k8", "tf32", "{%[a0], %[a1], %[a2], %[a3]}",                                                       \
                      "", [a0] "r"(a0), [a1] "r"(a1), [a2] "r"(a2), [a3] "r"(a3));                                           \
      else if constexpr (kIsBf16<T>)                                                                                         \
        JAXATOR_WGMMA(n, "k16", "bf16", "{%[a0], %[a1], %[a2], %[a3]}",                                                      \
                      ", %[tb]", [a0] "r"(a0), [a1] "r"(a1), [a2] "r"(a2), [a3] "r"(a3), [tb] "n"(int{TransposeB}));         \
      else                                                                                                                   \
        JAXATOR_WGMMA(n, "k16", "f16", "{%[a0], %[a1], %[a2], %[a3]}",                                                       \
                      ", %[tb]", [a0] "r"(a0), [a1] "r"(a1), [a2] "r"(a2), [a3] "r"(a3), [tb] "n"(int{TransposeB}));         \
    }                                                                                                                        \
    /* Names the accumulators: no read of them may move above it. */                                                         \
    template <int Groups> JAXATOR_DEVICE static void wait(float (&d)[n / 2]) {                                               \
      asm volatile("wgmma.wait_group.sync.aligned %[groups];" : JAXATOR_ACCUMULATORS_##n : [groups] "n"(Groups) : "memory"); \
    }                                                                                                                        \
  };
JAXATOR_WGMMA_SIZE(16)
JAXATOR_WGMMA_SIZE(32)
JAXATOR_WGMMA_SIZE(48)
JAXATOR_WGMMA_SIZE(64)
JAXATOR_WGMMA_SIZE(80)
JAXATOR_WGMMA_SIZE(96)
JAXATOR_WGMMA_SIZE(112)
JAXATOR_WGMMA_SIZE(128)
JAXATOR_WGMMA_SIZE(144)
JAXATOR_WGMMA_SIZE(160)
JAXATOR_WGMMA_SIZE(176)
JAXATOR_WGMMA_SIZE(192)
JAXATOR_WGMMA_SIZE(208)
JAXATOR_WGMMA_SIZE(224)
JAXATOR_WGMMA_SIZE(240)
JAXATOR_WGMMA_SIZE(256)

// clang-format off
#undef JAXATOR_R0
#undef JAXATOR_A0
#undef JAXATOR_R1
#undef JAXATOR_A1
#undef JAXATOR_R2
#undef JAXATOR_A2
#undef JAXATOR_R3
#undef JAXATOR_A3
#undef JAXATOR_R4
#undef JAXATOR_A4
#undef JAXATOR_R5
#undef JAXATOR_A5
#undef JAXATOR_R6
#undef JAXATOR_A6
#undef JAXATOR_R7
#undef JAXATOR_A7
#undef JAXATOR_R8
#undef JAXATOR_A8
#undef JAXATOR_R9
#undef JAXATOR_A9
#undef JAXATOR_R10
#undef JAXATOR_A10
#undef JAXATOR_R11
#undef JAXATOR_A11
#undef JAXATOR_R12
#undef JAXATOR_A12
#undef JAXATOR_R13
#undef JAXATOR_A13
#undef JAXATOR_R14
#undef JAXATOR_A14
#undef JAXATOR_R15
#undef JAXATOR_A15
#undef JAXATOR_REGISTERS_16
#undef JAXATOR_ACCUMULATORS_16
#undef JAXATOR_REGISTERS_32
#undef JAXATOR_ACCUMULATORS_32
#undef JAXATOR_REGISTERS_48
#undef JAXATOR_ACCUMULATORS_48
#undef JAXATOR_REGISTERS_64
#undef JAXATOR_ACCUMULATORS_64
#undef JAXATOR_REGISTERS_80
#undef JAXATOR_ACCUMULATORS_80
#undef JAXATOR_REGISTERS_96
#undef JAXATOR_ACCUMULATORS_96
#undef JAXATOR_REGISTERS_112
#undef JAXATOR_ACCUMULATORS_112
#undef JAXATOR_REGISTERS_128
#undef JAXATOR_ACCUMULATORS_128
#undef JAXATOR_REGISTERS_144
#undef JAXATOR_ACCUMULATORS_144
#undef JAXATOR_REGISTERS_160
#undef JAXATOR_ACCUMULATORS_160
#undef JAXATOR_REGISTERS_176
#undef JAXATOR_ACCUMULATORS_176
#undef JAXATOR_REGISTERS_192
#undef JAXATOR_ACCUMULATORS_192
#undef JAXATOR_REGISTERS_208
#undef JAXATOR_ACCUMULATORS_208
#undef JAXATOR_REGISTERS_224
#undef JAXATOR_ACCUMULATORS_224
#undef JAXATOR_REGISTERS_240
#undef JAXATOR_ACCUMULATORS_240
#undef JAXATOR_REGISTERS_256
#undef JAXATOR_ACCUMULATORS_256
// clang-format on
#undef JAXATOR_WGMMA
#undef JAXATOR_WGMMA_SIZE

/// d (+)= A B^T for kWgmmaDepth elements of k; A and B in shared memory. Transpose: the operand lies with k as its slow
/// dimension (16-bit types only).
template <class T, bool TransposeA = false, bool TransposeB = false, int Registers>
JAXATOR_DEVICE void wgmma(float (&d)[Registers], u64 a, u64 b, u32 accumulate = 1) {
  Wgmma<2 * Registers>::template shared<T, TransposeA, TransposeB>(d, a, b, accumulate);
}

/// The same with A in registers: a fragment has the layout of 16 columns of the accumulator, two elements a register.
template <class T, bool TransposeB = false, int Registers>
JAXATOR_DEVICE void wgmma_registers(float (&d)[Registers], u32 a0, u32 a1, u32 a2, u32 a3, u64 b, u32 accumulate = 1) {
  Wgmma<2 * Registers>::template registers<T, TransposeB>(d, a0, a1, a2, a3, b, accumulate);
}

/// Until at most `Groups` committed groups are under way.
template <int Groups, int Registers> JAXATOR_DEVICE void wgmma_wait_for(float (&d)[Registers]) {
  Wgmma<2 * Registers>::template wait<Groups>(d);
}

/// Descriptor of a matrix in shared memory, in bytes (PTX reference, "matrix descriptor"): rows of 128 bytes in the 128-byte
/// swizzle, groups of eight rows 1024 bytes apart. k along the rows. Advancing k by 32 bytes adds 2.
JAXATOR_DEVICE u64 matrix_descriptor(u32 address) {
  return static_cast<u64>((address & 0x3FFFF) >> 4) | u64{1} << 16 | u64{1024 >> 4} << 32 | u64{1} << 62;
}

/// Stores of accumulators as 16-bit elements: four 8x8 matrices, each row to its own address.
JAXATOR_DEVICE void stmatrix(u32 address, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}
JAXATOR_DEVICE void stmatrix_transposed(u32 address, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a), "r"(b), "r"(c),
               "r"(d)
               : "memory");
}
JAXATOR_DEVICE void ldmatrix(u32 address, u32& a, u32& b, u32& c, u32& d) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
               : "r"(address)
               : "memory");
}

}  // namespace jaxator::hopper
