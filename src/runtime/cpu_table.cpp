/// @file
/// Compiled once for each instruction set; see cpu_kernels.h.
#include "src/runtime/cpu_kernels.h"

#include "src/ops/rms_norm/cpu.h"

namespace jaxator::JAXATOR_ISA {
namespace {

constexpr CpuKernels kTable = {
    .rms_norm_forward = rms_norm_forward,
    .rms_norm_backward = rms_norm_backward,
};

}  // namespace
}  // namespace jaxator::JAXATOR_ISA

extern "C" __attribute__((visibility("default"))) const jaxator::CpuKernels* jaxator_cpu_kernels() {
  return &jaxator::JAXATOR_ISA::kTable;
}
