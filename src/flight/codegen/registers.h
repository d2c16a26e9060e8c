/// @file
/// What the code for x86 needs of the machine. Its object files do not say it: it is read before they are written.
#pragma once

#include "llvm/Target/RegisterTargetPassConfigCallback.h"
#include "src/flight/codegen/report.h"

namespace jaxator::flight {

/// For llvm::RegisterTargetPassConfigCallback. While that lives, every function that LLVM makes code of is entered into
/// `kernels`: vector registers, general registers, stores of registers that did not fit, and the bytes of the stack that those
/// take.
llvm::PassConfigCallback count_registers(llvm::StringMap<Needs>& kernels);

}  // namespace jaxator::flight
