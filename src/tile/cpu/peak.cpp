#include "src/tile/cpu/peak.h"

#include <ctime>

#include "src/tile/cpu/dot.h"

namespace jaxator::JAXATOR_ISA {
namespace {

/// Processor time of this thread, which other programs on the machine do not count towards.
double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// As many chains as a 16-register machine holds besides two operands, and more than latency x ports = 8 needs.
constexpr int kChains = 12;

template <class Dot> double measure(double seconds) {
  f32v chain[kChains]{};
  u32v a = (u32v)splat(1.37f), b = (u32v)splat(0.53f);
  constexpr int64_t kSteps = 20000;
  int64_t steps = 0;
  const double start = thread_seconds();
  double elapsed = 0;
  do {
    for (int64_t i = 0; i < kSteps; i++) {
#pragma GCC unroll 16
      for (int c = 0; c < kChains; c++) {
        chain[c] = Dot::dot(chain[c], a, b);
        asm volatile("" : "+v"(chain[c]));  // no chain may be folded into another
      }
    }
    steps += kSteps;
    elapsed = thread_seconds() - start;
  } while (elapsed < seconds);
  return static_cast<double>(steps) * kChains * kLanes * Dot::group * 2 / elapsed;
}

}  // namespace

double peak_flops(bool bf16_dot, double seconds) {
  if (!bf16_dot) return measure<DotF32>(seconds);
#if defined(__AVX512BF16__)
  return measure<DotBf16>(seconds);
#else
  return 0;
#endif
}

}  // namespace jaxator::JAXATOR_ISA
