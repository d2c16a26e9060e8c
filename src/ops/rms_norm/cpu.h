/// @file
/// Entry points of one instruction set's kernels.
#pragma once

#include "jaxator/executor.h"
#include "jaxator/rms_norm.h"
#include "src/ops/rms_norm/config.h"

namespace jaxator::JAXATOR_ISA {

void rms_norm_forward(const RmsNormDesc&, const RmsNormConfig&, const RmsNormForwardArgs&, Executor&);
void rms_norm_backward(const RmsNormDesc&, const RmsNormConfig&, const RmsNormBackwardArgs&, Executor&);

}  // namespace jaxator::JAXATOR_ISA
