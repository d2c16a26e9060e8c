/// @file
/// Compiled once for each instruction set; see cpu_kernels.h.
#include "src/runtime/cpu_kernels.h"

#include "src/ops/attention/cpu.h"
#include "src/ops/layer_norm/cpu.h"
#include "src/ops/matmul/cpu.h"
#include "src/ops/rms_norm/cpu.h"
#include "src/ops/rope/cpu.h"
#include "src/ops/swiglu/cpu.h"
#include "src/tile/cpu/peak.h"

namespace jaxator::JAXATOR_ISA {
namespace {

constexpr CpuKernels kTable = {
    .rms_norm_forward = rms_norm_forward,
    .rms_norm_backward = rms_norm_backward,
    .layer_norm_forward = layer_norm_forward,
    .layer_norm_backward = layer_norm_backward,
    .swiglu_forward = swiglu_forward,
    .swiglu_backward = swiglu_backward,
    .rope = rope,
    .attention_forward = attention_forward,
    .attention_backward = attention_backward,
    .matmul = matmul,
    .peak_flops = peak_flops,
};

}  // namespace
}  // namespace jaxator::JAXATOR_ISA

extern "C" __attribute__((visibility("default"))) const jaxator::CpuKernels* jaxator_cpu_kernels() {
  return &jaxator::JAXATOR_ISA::kTable;
}
