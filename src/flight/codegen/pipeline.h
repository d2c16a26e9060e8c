/// @file
/// The order of the passes.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Pass/PassManager.h"
#include "src/flight/codegen/compile.h"
#include "src/flight/passes/tiles_vectors.h"

namespace jaxator::flight {

void register_dialects(mlir::DialectRegistry& registry);
/// From the flight dialect to the llvm dialect. With `vectors` by x86's way for whole tiles.
void add_passes(mlir::PassManager& manager, const Target& target, const Vectors* vectors);
/// What loops say of themselves to where LLVM reads it: the conversion from cf keeps it under the name that scf knows.
void annotate_loops(mlir::ModuleOp module);

}  // namespace jaxator::flight
