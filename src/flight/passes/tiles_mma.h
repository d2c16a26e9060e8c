/// @file
/// Products of tiles, on both routes.
#pragma once

#include "src/flight/atoms.h"
#include "src/flight/dialect/dialect.h"

namespace jaxator::flight {

/// What a product of tiles asks for: C [m, n] += A [m, k] * B [n, k]^T.
struct Product {
  const Atom* atom;
  layout::Layout waves;
  int64_t m, n, k;
};

/// An error on the op where the target lacks the atom or the element types are not the atom's. The types are those of tiles and
/// views.
mlir::FailureOr<Product> product_of(TileMmaOp op, llvm::StringRef target, mlir::Type a, mlir::Type b, mlir::Type c);

/// a * b + sum: fused for floats.
mlir::Value multiply_add(mlir::OpBuilder& b, mlir::Location loc, mlir::Value x, mlir::Value y, mlir::Value sum);

/// wgmma from shared memory into the sums of this thread; null after an error on the op.
mlir::Value warpgroup_product(mlir::OpBuilder& b, TileMmaOp op, const Product& product, mlir::Value sums, mlir::Value thread);

}  // namespace jaxator::flight
