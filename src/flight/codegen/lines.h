/// @file
/// Line tables: they cost a few KB, and let the emulator name the user's line in what it finds.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace jaxator::flight {

/// Puts the scopes into the locations of a module in the llvm dialect. Call chains are given up: of each only the innermost line
/// is kept.
mlir::LogicalResult add_line_tables(mlir::ModuleOp module);

}  // namespace jaxator::flight
