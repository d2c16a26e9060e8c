/// @file
/// One block on one CPU thread. The code of a thread is split at collectives; each piece becomes a loop over the block's threads,
/// the "lanes". That is right for code whose barriers are right: one lane after another is one of the orders that a block may
/// take.
///  - What does not differ between threads stays scalar.
///  - A value of a lane that is needed past its piece gets a slot: an array over lanes on the stack.
///  - Control flow around a collective must not differ between threads. It stays outside of the lane loops, and the values that
///  it
///    carries are slots. Other control flow goes into the lane loop whole.
#pragma once

#include "src/flight/passes/precompiled.h"
#include "src/flight/passes/uniformity.h"

namespace jaxator::flight {

class Lanes {
 public:
  /// Code goes to `builder`; slots to the beginning of its block.
  Lanes(mlir::func::FuncOp function, llvm::ArrayRef<int64_t> extents, mlir::OpBuilder& builder);

  /// A value from outside, the same for all threads.
  void map(mlir::Value old, mlir::Value made) { uniform_.map(old, made); }
  mlir::LogicalResult run();
  /// Bytes of all slots.
  int64_t slot_bytes() const { return slot_bytes_; }

 private:
  struct Slot {
    mlir::Value address;
    mlir::Type stored;
  };

  mlir::Value constant(int64_t number);
  Slot slot(mlir::Value old);
  mlir::Value at(const Slot& slot, mlir::Value lane);
  mlir::Value get(mlir::Value old, mlir::Value lane);
  void put(mlir::Value value, mlir::Value old, mlir::Value lane);
  mlir::Value value_of(mlir::Value old, mlir::Value lane);
  template <class Body> void for_lanes(Body&& body);
  mlir::Value thread_id(Axis axis, mlir::Value lane);

  mlir::LogicalResult run(mlir::Block* body);
  void run_only_thread();
  void flush();
  void load_slots(mlir::Operation* op, mlir::Value lane, mlir::IRMapping& map);
  void copy(mlir::ValueRange from, mlir::ValueRange to);
  mlir::LogicalResult collective(mlir::Operation* op);
  void shuffle(ShuffleOp op);
  mlir::LogicalResult loop(mlir::scf::ForOp op);
  mlir::LogicalResult loop(mlir::scf::WhileOp op);
  mlir::LogicalResult branch(mlir::scf::IfOp op);
  mlir::LogicalResult require_uniform(mlir::Operation* op, mlir::ValueRange values, const char* what);
  mlir::Value scalar(mlir::Value old) { return uniform_.lookup(old); }

  mlir::func::FuncOp function_;
  int64_t extents_[3], threads_;
  mlir::OpBuilder& b_;
  mlir::OpBuilder entry_;
  mlir::Location loc_;
  Uniformity uniformity_;
  mlir::IRMapping uniform_;
  llvm::DenseMap<mlir::Value, Slot> slots_;
  llvm::SmallVector<mlir::Operation*> piece_;
  int64_t slot_bytes_ = 0;
};

}  // namespace jaxator::flight
