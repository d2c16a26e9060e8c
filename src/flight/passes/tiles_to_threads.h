/// @file
/// The state of tiles-to-threads for one function. Its parts are in tiles_to_threads_{memory,exchange,mma}.cpp.
#pragma once

#include <map>
#include <memory>

#include "src/flight/passes/precompiled.h"
#include "src/flight/passes/tiles_spread.h"
#include "src/flight/target.h"

namespace jaxator::flight {

class ThreadTiles {
 public:
  ThreadTiles(mlir::func::FuncOp function, const Target& target) : function_(function), target_(target), b_(function) {}

  mlir::LogicalResult run();

 private:
  mlir::LogicalResult lower(mlir::Operation* op);
  const Spread& spread(mlir::Type tile);
  const Spread& spread_of(mlir::Value tile) { return spread(tiles_.at(tile)); }
  mlir::VectorType vector(mlir::Type tile);
  mlir::Type tile_or_view(mlir::Value value) { return tiles_.contains(value) ? tiles_.at(value) : value.getType(); }
  mlir::LogicalResult replace(mlir::Operation* op, mlir::ValueRange values);

  mlir::LogicalResult splat(SplatOp op);
  mlir::LogicalResult iota(IotaOp op);
  mlir::LogicalResult map(MapOp op);
  mlir::LogicalResult rearrange(mlir::Operation* op, llvm::function_ref<Coordinates(Coordinates)> project, const char* rule);

  mlir::LogicalResult load(TileLoadOp op);
  mlir::LogicalResult store(TileStoreOp op);
  mlir::LogicalResult copy(TileCopyOp op);

  mlir::LogicalResult reduce(ReduceOp op);
  mlir::Value reduce_in_thread(Combine kind, mlir::Value input, mlir::ArrayRef<mlir::SmallVector<int64_t>> rows);
  mlir::Value reduce_in_wave(Combine kind, mlir::Value values, const Digit& digit);
  mlir::Value reduce_in_block(Combine kind, mlir::Value values, mlir::ArrayRef<Digit> digits);
  mlir::LogicalResult respread(RespreadOp op);
  mlir::Value shuffle_xor(mlir::Value scalar, int64_t distance);

  mlir::LogicalResult mma(TileMmaOp op);

  mlir::Value index(int64_t value) { return mlir::arith::ConstantIndexOp::create(b_, loc_, value); }
  /// This thread's number in its block.
  mlir::Value thread();
  /// Shared memory that is free between the barriers around its use.
  mlir::Value scratch(mlir::Type element, int64_t count);
  mlir::Value view(mlir::Value pointer, mlir::Value offset, const layout::Layout& layout);
  void if_first_copy(const Spread& spread, llvm::function_ref<void()> body);

  mlir::func::FuncOp function_;
  const Target& target_;
  mlir::OpBuilder b_;
  mlir::Location loc_ = function_.getLoc();
  mlir::DenseMap<mlir::Value, mlir::Type> tiles_;  // of values that were tiles
  mlir::DenseMap<mlir::Type, std::unique_ptr<Spread>> spreads_;
  mlir::DenseMap<mlir::Type, SharedOp> scratch_;
  mlir::Value thread_;
};

}  // namespace jaxator::flight
