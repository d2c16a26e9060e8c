#include <cpuid.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "jaxator/cpu.h"

namespace jaxator {
namespace {

struct Cpuid {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  Cpuid(unsigned leaf, unsigned subleaf) { __get_cpuid_count(leaf, subleaf, &eax, &ebx, &ecx, &edx); }
};

std::string vendor_name() {
  Cpuid id(0, 0);
  char text[13]{};
  std::memcpy(text, &id.ebx, 4);
  std::memcpy(text + 4, &id.edx, 4);
  std::memcpy(text + 8, &id.ecx, 4);
  return text;
}

std::string brand_name() {
  char text[49]{};
  for (unsigned i = 0; i < 3; i++) {
    Cpuid id(0x80000002u + i, 0);
    std::memcpy(text + 16 * i, &id, 16);
  }
  return text;
}

CpuFeatures detect() {
  CpuFeatures f;
  f.vendor = vendor_name();
  f.brand = brand_name();
  const Cpuid version(1, 0);
  f.family = (version.eax >> 8) & 15;
  f.model = (version.eax >> 4) & 15;
  if (f.family == 15) f.family += (version.eax >> 20) & 255;
  if (f.family == 6 || f.family >= 15) f.model += ((version.eax >> 16) & 15) << 4;

  // The builtin covers the operating system's part (XCR0) as well as cpuid's.
  __builtin_cpu_init();
  f.v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2") &&
         (version.ecx >> 29 & 1) != 0;  // F16C
  f.v4 = f.v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  f.bf16_vnni = f.v4 && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vnni");
  f.fast_bf16_dot = f.bf16_vnni && f.vendor == "AuthenticAMD" && f.family >= 0x1a;

  // What one program can count on. A socket's cache serves all of its cores and, on a virtual machine, other machines too:
  // 300 and 384 MiB are reported on two-core machines that behave as if they had a few.
  constexpr long kShare = 32l << 20;
  const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
  f.last_level_cache_bytes = cache > 0 ? std::min(cache, kShare) : kShare;
  return f;
}

}  // namespace

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = detect();
  return features;
}

}  // namespace jaxator
