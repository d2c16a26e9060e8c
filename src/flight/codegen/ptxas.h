/// @file
/// NVIDIA's assembler, where it is installed: only it knows the registers that PTX gets.
#pragma once

#include "src/flight/codegen/report.h"

namespace jaxator::flight {

/// Of each kernel of a text of PTX, from what `ptxas -v` says. No ptxas in PATH or in CUDA's folder: nothing is known. An error
/// is what ptxas says of a text that it refuses.
llvm::Expected<llvm::StringMap<Needs>> ask_ptxas(llvm::StringRef ptx, llvm::StringRef architecture);

/// Of the lines of `ptxas -v`.
llvm::StringMap<Needs> read_ptxas(llvm::StringRef text);

}  // namespace jaxator::flight
