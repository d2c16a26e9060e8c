/// @file
/// LLVM's part: from the llvm dialect to an object file or to PTX.
#pragma once

#include <memory>
#include <string>

#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"
#include "src/flight/codegen/compile.h"
#include "src/flight/passes/tiles_vectors.h"

namespace jaxator::flight {

/// The CPU's features are those of its name; those of the CPU at hand are asked of itself. nullptr: `error` says why.
std::unique_ptr<llvm::TargetMachine> make_machine(const Target& target, const Options& options, std::string& error);
/// What loops over tiles may use of an x86 processor.
Vectors vectors_of(const Target& target, const Options& options);
/// Attributes that the code generator reads from functions.
void prepare(llvm::Module& module, const Target& target, const llvm::TargetMachine& machine, const Options& options);
void optimise(llvm::Module& module, llvm::TargetMachine& machine, int level);
/// Assembly of NVIDIA GPUs, an object file else. False: the target cannot.
bool emit(llvm::Module& module, llvm::TargetMachine& machine, bool assembly, llvm::SmallVectorImpl<char>& bytes);

}  // namespace jaxator::flight
