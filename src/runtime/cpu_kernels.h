/// @file
/// The table of functions that one instruction set's shared object exports under the C name `jaxator_cpu_kernels`.
/// Kernels trust their arguments: descs are validated and empty problems returned before the table is reached.
#pragma once

#include "jaxator/attention.h"
#include "jaxator/executor.h"
#include "jaxator/layer_norm.h"
#include "jaxator/matmul.h"
#include "jaxator/rms_norm.h"
#include "jaxator/rope.h"
#include "jaxator/swiglu.h"
#include "src/ops/attention/config.h"
#include "src/ops/layer_norm/config.h"
#include "src/ops/matmul/config.h"
#include "src/ops/rms_norm/config.h"
#include "src/ops/rope/config.h"
#include "src/ops/swiglu/config.h"

namespace jaxator {

struct CpuKernels {
  void (*rms_norm_forward)(const RmsNormDesc&, const RmsNormConfig&, const RmsNormForwardArgs&, Executor&);
  void (*rms_norm_backward)(const RmsNormDesc&, const RmsNormConfig&, const RmsNormBackwardArgs&, Executor&);
  void (*layer_norm_forward)(const LayerNormDesc&, const LayerNormConfig&, const LayerNormForwardArgs&, Executor&);
  void (*layer_norm_backward)(const LayerNormDesc&, const LayerNormConfig&, const LayerNormBackwardArgs&, Executor&);
  void (*swiglu_forward)(const SwigluDesc&, const SwigluConfig&, const SwigluForwardArgs&, Executor&);
  void (*swiglu_backward)(const SwigluDesc&, const SwigluConfig&, const SwigluBackwardArgs&, Executor&);
  void (*rope)(const RopeDesc&, const RopeConfig&, const RopeArgs&, Executor&);
  void (*attention_forward)(const AttentionDesc&, const AttentionConfig&, const AttentionForwardArgs&, int64_t slots, Executor&);
  void (*attention_backward)(const AttentionDesc&, const AttentionConfig&, const AttentionBackwardArgs&, int64_t slots,
                             Executor&);
  void (*matmul)(const MatmulDesc&, const MatmulConfig&, const MatmulArgs&, int64_t slots, Executor&);
  /// Register-only flops a second of one thread: float32 FMA or bfloat16 dot (0 where missing).
  double (*peak_flops)(bool bf16_dot, double seconds);
};

using CpuKernelsFn = const CpuKernels* (*)();

/// The table in use (see cpu.h); opens its shared object on first use. Safe to call from several threads.
const CpuKernels& cpu_kernels();

}  // namespace jaxator
