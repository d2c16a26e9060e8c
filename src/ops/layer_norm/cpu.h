/// @file
/// Entry points of one instruction set's kernels.
#pragma once

#include "jaxator/executor.h"
#include "jaxator/layer_norm.h"
#include "src/ops/layer_norm/config.h"

namespace jaxator::JAXATOR_ISA {

void layer_norm_forward(const LayerNormDesc&, const LayerNormConfig&, const LayerNormForwardArgs&, Executor&);
void layer_norm_backward(const LayerNormDesc&, const LayerNormConfig&, const LayerNormBackwardArgs&, Executor&);

}  // namespace jaxator::JAXATOR_ISA
