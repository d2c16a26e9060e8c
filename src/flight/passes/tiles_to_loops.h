/// @file
/// x86's fast way: no threads. A tile is an array, or a value that is computed where it is used; ops on tiles are loop nests of
/// vector code over the mode that is contiguous in memory. The parts are in tiles_to_loops_{values,nests,mma}.cpp.
#pragma once

#include "src/flight/passes/precompiled.h"
#include "src/flight/passes/tiles_mma.h"
#include "src/flight/passes/tiles_pack.h"
#include "src/flight/passes/tiles_spread.h"
#include "src/flight/passes/tiles_vectors.h"

namespace jaxator::flight {

/// A place in a tile: a coordinate for each mode, and a run of neighbours along one of them.
struct Place {
  mlir::SmallVector<mlir::Value> at;
  int mode;
  int64_t width;
  int64_t multiple;  // divides the coordinate in `mode`
  bool masked;       // some of it may be out of bounds
};

/// Which tiles are arrays. The others are computed where their one user needs them.
class Plan {
 public:
  explicit Plan(mlir::func::FuncOp function);
  bool is_array(mlir::Operation* op) const { return !points_.contains(op); }

 private:
  mlir::Operation* point_of(mlir::Operation* op) const;
  mlir::Operation* point_of_use(mlir::OpOperand& use) const;
  llvm::DenseMap<mlir::Operation*, mlir::Operation*>
      points_;  // where an op that is no array is computed; null: at each of its uses
};

/// Runs of this width from multiples of it on are the same in the layout's mode wherever they begin.
bool has_runs(ViewOp view, int mode, int64_t width);

/// No op needs this tile after `op`: it is used in `op`, or else where `op` does not run.
bool last_used_in(mlir::Value tile, mlir::Operation* op);

class LoopTiles {
 public:
  LoopTiles(mlir::func::FuncOp function, const Vectors& vectors)
      : function_(function), vectors_(vectors), plan_(function), b_(function) {}

  mlir::LogicalResult run();

 private:
  mlir::LogicalResult block(mlir::Block& block);
  mlir::LogicalResult lower(mlir::Operation* op);

  // Carried tiles.
  void carry(mlir::Operation* op);
  ViewOp lent(mlir::scf::IfOp branch, mlir::OpResult result);
  void assign(mlir::ValueRange values, mlir::ValueRange places);
  bool reads(mlir::Value tile, mlir::ArrayRef<ViewOp> arrays, ViewOp own) const;
  void finish();

  // Values.
  ViewOp array_of(mlir::Value tile) const { return arrays_.lookup(tile); }
  ViewOp new_array(TileType tile, int fastest);
  ViewOp new_memory(mlir::Type element, mlir::ArrayRef<int64_t> shape, mlir::ArrayRef<int64_t> strides);
  mlir::Value evaluate(mlir::Value tile, const Place& place);
  mlir::Value read(ViewOp view, const Place& place, mlir::Value mask = {}, mlir::Value other = {});
  void write(mlir::Value value, ViewOp view, const Place& place, mlir::Value mask = {});
  mlir::Value at(ViewOp view, const Place& place);
  mlir::Value mask(mlir::ValueRange bounds, mlir::ArrayRef<int64_t> shape, const Place& place);
  mlir::Value iota(int mode, const Place& place);
  mlir::SmallVector<mlir::Value> evaluate_map(MapOp map, const Place& place);
  Place projected(const Place& place, mlir::ArrayRef<int64_t> shape, bool& repeated);

  // Nests.
  /// What an expression reads: where each mode of the nest is in a view (-1: nowhere), the widest element, the bounds.
  struct Facts {
    mlir::SmallVector<std::pair<ViewOp, mlir::SmallVector<int>>> views;
    int64_t bits = 8;
    mlir::Value full;  // nothing is out of bounds; null: that is known
  };
  struct Nest {
    mlir::SmallVector<int64_t> shape;
    int mode;
    int64_t width;
    mlir::Value full;
  };
  void inspect(mlir::Value tile, mlir::SmallVector<int> modes, Facts& facts);
  void add_bounds(mlir::ValueRange bounds, mlir::ArrayRef<int64_t> shape, Facts& facts);
  Nest nest_of(mlir::ArrayRef<int64_t> shape, const Facts& facts, int mode);
  int contiguous_mode(const Facts& facts, int64_t rank) const;
  void versions(const Nest& nest, llvm::function_ref<void(bool masked)> body);
  void loops(const Nest& nest, bool masked, llvm::function_ref<void(const Place&)> body, int skipped = -1);
  void along(const Nest& nest, Place& place, llvm::function_ref<void(const Place&)> body);
  void materialise(mlir::Operation* op);
  void fill(mlir::Value tile, ViewOp array);
  void store(TileStoreOp op);
  void copy(TileCopyOp op);
  void reduce(ReduceOp op);
  void reduce_runs(ReduceOp op, const Nest& nest, Place place, ViewOp array);
  void reduce_rows(ReduceOp op, Place place, int64_t size, ViewOp array);
  mlir::Value reduce_vector(Combine kind, mlir::Value vector);

  // Products.
  struct Words {
    Packed at;
    mlir::Value sums;  // of bytes, if the product needs them
  };
  struct PackedShared {
    BlockedProduct product;
    bool left, along_k;
    Words words;
  };
  mlir::LogicalResult mma(TileMmaOp op);
  mlir::LogicalResult find_packed_shared();
  bool copy_packed(TileCopyOp op);
  mlir::FailureOr<BlockedProduct> blocks_of(TileMmaOp op) const;
  bool along_k(mlir::Value operand);
  ViewOp sums_of(TileMmaOp op);
  ViewOp with_runs(ViewOp view);
  void pack(const BlockedProduct& product, bool left, const Words& to, bool by_k, ReadOperand read);
  Words new_words(const BlockedProduct& product, bool left, bool by_k, mlir::Value owner);
  mlir::Value packed(mlir::Type word, int64_t count, int which, mlir::Value owner);

  mlir::Value index(int64_t n) { return mlir::arith::ConstantIndexOp::create(b_, loc_, n); }

  mlir::func::FuncOp function_;
  const Vectors& vectors_;
  Plan plan_;
  mlir::OpBuilder b_;
  mlir::Location loc_ = function_.getLoc();
  llvm::DenseMap<mlir::Value, ViewOp> arrays_;
  mlir::SmallVector<mlir::Operation*> tile_ops_;
  llvm::DenseMap<std::pair<std::pair<mlir::Type, int>, mlir::Value>, SharedOp> packed_;
  llvm::DenseMap<mlir::Value, PackedShared> packed_shared_;
};

}  // namespace jaxator::flight
