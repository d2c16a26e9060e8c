/// @file
/// Entry point of one instruction set's kernels.
#pragma once

#include "jaxator/executor.h"
#include "jaxator/rope.h"
#include "src/ops/rope/config.h"

namespace jaxator::JAXATOR_ISA {

void rope(const RopeDesc&, const RopeConfig&, const RopeArgs&, Executor&);

}  // namespace jaxator::JAXATOR_ISA
