/// @file
/// Conversions of floats of 8 bits, which LLVM does not know: integer arithmetic, exact, nearest-even.
#pragma once

#include "src/flight/passes/precompiled.h"

namespace jaxator::flight {

/// E4M3FN, E5M2 and their FNUZ forms.
bool is_narrow(mlir::Type element);

/// To f32. A scalar or a vector.
mlir::Value widen(mlir::OpBuilder& b, mlir::Location loc, mlir::Value value);
/// From f32. Past the largest number: infinity where the format has it, else NaN, as ml_dtypes does.
mlir::Value narrow(mlir::OpBuilder& b, mlir::Location loc, mlir::Value value, mlir::Type element);

}  // namespace jaxator::flight
