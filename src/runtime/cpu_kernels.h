/// @file
/// The table of functions that one instruction set's shared object exports under the C name `jaxator_cpu_kernels`.
/// Kernels trust their arguments: descs are validated and empty problems returned before the table is reached.
#pragma once

#include "jaxator/executor.h"
#include "jaxator/rms_norm.h"
#include "src/ops/rms_norm/config.h"

namespace jaxator {

struct CpuKernels {
  void (*rms_norm_forward)(const RmsNormDesc&, const RmsNormConfig&, const RmsNormForwardArgs&, Executor&);
  void (*rms_norm_backward)(const RmsNormDesc&, const RmsNormConfig&, const RmsNormBackwardArgs&, Executor&);
};

using CpuKernelsFn = const CpuKernels* (*)();

/// The table in use (see cpu.h); opens its shared object on first use. Safe to call from several threads.
const CpuKernels& cpu_kernels();

}  // namespace jaxator
