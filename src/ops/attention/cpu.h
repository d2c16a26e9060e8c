/// @file
/// Entry points of one instruction set's kernels.
#pragma once

#include "jaxator/attention.h"
#include "jaxator/executor.h"
#include "src/ops/attention/config.h"

namespace jaxator::JAXATOR_ISA {

void attention_forward(const AttentionDesc&, const AttentionConfig&, const AttentionForwardArgs&, int64_t slots, Executor&);
void attention_backward(const AttentionDesc&, const AttentionConfig&, const AttentionBackwardArgs&, int64_t slots, Executor&);

}  // namespace jaxator::JAXATOR_ISA
