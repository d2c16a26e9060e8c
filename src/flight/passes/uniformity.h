/// @file
/// Which values may differ between the threads of a block, or of a wave.
#pragma once

#include "llvm/ADT/DenseSet.h"
#include "mlir/IR/Operation.h"

namespace jaxator::flight {

/// All threads take part: a barrier, lanes that exchange values, a matrix instruction, an op of a whole tile.
bool is_collective(mlir::Operation* op);
/// It is one, or has one inside.
bool has_collective(mlir::Operation* op);

class Uniformity {
 public:
  /// With the number of its lanes, between the threads of a wave instead.
  explicit Uniformity(mlir::Operation* function, int64_t wave = 0);

  bool varying(mlir::Value value) const { return varying_.contains(value); }
  /// Nothing in it differs between threads, and nothing is written: it may be run once for all of them.
  bool scalar(mlir::Operation* op) const;

 private:
  void visit(mlir::Operation* op);
  bool same_in_wave(mlir::Operation* op) const;
  void visit_for(mlir::Operation* op);
  void visit_while(mlir::Operation* op);
  void visit_if(mlir::Operation* op);
  void mark(mlir::Value value) { changed_ |= varying_.insert(value).second; }
  void mark_all(mlir::ValueRange values);
  bool any(mlir::ValueRange values) const;

  llvm::DenseSet<mlir::Value> varying_;
  bool changed_ = false;
  int64_t wave_ = 0;
  llvm::SmallVector<int64_t> extents_;
};

}  // namespace jaxator::flight
