/// @file
/// Entry points of one instruction set's kernels.
#pragma once

#include "jaxator/executor.h"
#include "jaxator/swiglu.h"
#include "src/ops/swiglu/config.h"

namespace jaxator::JAXATOR_ISA {

void swiglu_forward(const SwigluDesc&, const SwigluConfig&, const SwigluForwardArgs&, Executor&);
void swiglu_backward(const SwigluDesc&, const SwigluConfig&, const SwigluBackwardArgs&, Executor&);

}  // namespace jaxator::JAXATOR_ISA
