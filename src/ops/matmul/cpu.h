/// @file
/// Entry point of one instruction set's kernels.
#pragma once

#include "jaxator/executor.h"
#include "jaxator/matmul.h"
#include "src/ops/matmul/config.h"

namespace jaxator::JAXATOR_ISA {

void matmul(const MatmulDesc&, const MatmulConfig&, const MatmulArgs&, int64_t slots, Executor&);

}  // namespace jaxator::JAXATOR_ISA
