/// @file
/// The CPU target: which instruction sets this library has kernels for, which of them this machine runs, which is in use.
#pragma once

#include <string>
#include <vector>

namespace jaxator {

/// Kernel sets, weakest first. Each is a shared object of its own, opened when first needed.
enum class CpuIsa : int { v3 = 0, v4 = 1, v4_bf16 = 2 };
inline constexpr int kCpuIsaCount = 3;

const char* name_of(CpuIsa isa);  // "x86-64-v3", "x86-64-v4", "x86-64-v4-bf16"

/// What cpuid says, reduced to what decisions need.
struct CpuFeatures {
  std::string vendor;  // "GenuineIntel", "AuthenticAMD", ...
  std::string brand;
  int family = 0;
  int model = 0;
  bool v3 = false;         // AVX2, FMA, F16C, BMI2 and operating-system support for ymm
  bool v4 = false;         // AVX-512 F, BW, CD, DQ, VL and operating-system support for zmm
  bool bf16_vnni = false;  // AVX512_BF16 and AVX512_VNNI on top of v4
  /// vdpbf16ps has at least the flop rate of f32 FMA. Decided by vendor and model, never timed: a timing would let
  /// results vary from run to run. Measured: Zen 5 issues 2 a clock (2x FMA's flops), Emerald Rapids 0.5 (half of them).
  bool fast_bf16_dot = false;
  long last_level_cache_bytes = 0;  // the share that one program can count on, at most 32 MiB
};

const CpuFeatures& cpu_features();

/// Sets this machine can run, weakest first. Empty on a CPU without AVX2.
std::vector<CpuIsa> cpu_supported();

/// The set in use. Throws UnsupportedError if the machine has none or its file is missing.
CpuIsa cpu_isa();

/// Forces a set (tests compare them on one machine); throws UnsupportedError if this machine lacks it.
void cpu_force_isa(CpuIsa isa);

/// Back to the choice by CPU model.
void cpu_reset_isa();

}  // namespace jaxator
