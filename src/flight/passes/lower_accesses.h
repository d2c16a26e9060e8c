/// @file
/// Code for the loads, stores and copies of one op.
#pragma once

#include "src/flight/passes/access.h"
#include "src/flight/passes/precompiled.h"
#include "src/flight/target.h"

namespace jaxator::flight {

/// LLVM has no number formats of 8 bits: they are integers in memory.
mlir::Type stored_type(mlir::Type element);

/// Pointers are those of the llvm dialect already.
class Accesses {
 public:
  Accesses(mlir::Operation* op, const Target& target) : b_(op), loc_(op->getLoc()), target_(target) {}

  mlir::Value load(const Elements& elements, ViewOp view, mlir::VectorType type, mlir::Value mask, mlir::Value other);
  void store(const Elements& elements, ViewOp view, mlir::Value value, mlir::Value mask);
  void copy(const Elements& from, ViewOp source, const Elements& to, ViewOp destination, mlir::Value mask, bool async);

 private:
  IndexBuilder index_builder(ViewOp view) { return {b_, loc_, view.getDims()}; }
  mlir::Value address(const Elements& elements, ViewOp view, IndexBuilder& indices, int64_t element);
  mlir::Value load_piece(mlir::Type type, mlir::Value address, int64_t align, mlir::Value mask, mlir::Value other);
  void store_piece(mlir::Value value, mlir::Value address, int64_t align, mlir::Value mask);
  mlir::SmallVector<Piece> pieces(mlir::ArrayRef<const Elements*> sides) const {
    return split_into_pieces(sides, target_.x86() ? 64 : 16, !target_.x86());
  }
  mlir::Value pick(mlir::Value vector, mlir::ArrayRef<int64_t> elements);
  mlir::Value widened(mlir::Value vector, mlir::VectorType type);
  mlir::Value all(mlir::Value mask);
  /// body(number, address, bit of the mask) for each element of a piece.
  void for_each_there(mlir::VectorType type, mlir::Value address, mlir::Value mask,
                      mlir::function_ref<void(int64_t, mlir::Value, mlir::Value)> body);
  mlir::Value zero(mlir::Type type) { return mlir::arith::ConstantOp::create(b_, loc_, b_.getZeroAttr(type)); }

  mlir::OpBuilder b_;
  mlir::Location loc_;
  const Target& target_;
};

}  // namespace jaxator::flight
