/// @file
/// Tiles to arrays and loops, op by op. Tiles that loops and branches carry live in arrays that are written in place; what the op
/// carried for them becomes a constant, which the canonicaliser removes.
#include "src/flight/passes/tiles_to_loops.h"

#include <stdexcept>

#include "src/flight/passes/passes.h"
#include "src/flight/passes/tiles.h"

namespace jaxator::flight {

using namespace mlir;

namespace {

bool is_tile(Value value) { return isa<TileType>(value.getType()); }

SmallVector<Value> tiles_among(ValueRange values) { return llvm::to_vector(llvm::make_filter_range(values, is_tile)); }

int last_mode(Value tile) {
  return parse_tile_layout(cast<TileType>(tile.getType()).getShape(), cast<TileType>(tile.getType()).getSpread()).shape.rank() -
         1;
}

}  // namespace

bool last_used_in(Value tile, Operation* op) {
  SmallVector<Region*> branches;
  for (Operation* at = op; at->getBlock() != tile.getParentBlock(); at = at->getParentOp()) {
    if (!isa<scf::IfOp>(at->getParentOp())) return false;
    branches.push_back(at->getParentRegion());
  }
  return llvm::all_of(tile.getUsers(), [&](Operation* user) {
    return op->isAncestor(user) || llvm::any_of(branches, [&](Region* branch) {
             return branch->getParentOp()->isProperAncestor(user) && !branch->isAncestor(user->getParentRegion());
           });
  });
}

/// The array of a tile that one branch hands on as it is, if nothing else needs that tile: the other branch may write there.
ViewOp LoopTiles::lent(scf::IfOp branch, OpResult result) {
  for (Region& region : branch->getRegions()) {
    Value value = region.front().getTerminator()->getOperand(result.getResultNumber());
    ViewOp array = array_of(value);
    if (array && !branch->isAncestor(value.getParentRegion()->getParentOp()) && last_used_in(value, branch)) return array;
  }
  return {};
}

/// True if the value of a tile depends on one of the arrays, other than element by element on its own.
bool LoopTiles::reads(Value tile, ArrayRef<ViewOp> arrays, ViewOp own) const {
  if (ViewOp array = array_of(tile)) return array != own && llvm::is_contained(arrays, array);
  Operation* op = tile.getDefiningOp();
  if (isa<TransposeOp, BroadcastOp>(op)) own = nullptr;
  return llvm::any_of(op->getOperands(), [&](Value operand) { return is_tile(operand) && reads(operand, arrays, own); });
}

/// Writes the values of tiles to the arrays of places, all at once: none is overwritten while another needs it.
void LoopTiles::assign(ValueRange values, ValueRange places) {
  SmallVector<ViewOp> arrays;
  for (const Value place : places) arrays.push_back(array_of(place));
  SmallVector<std::pair<ViewOp, ViewOp>> late;
  SmallVector<TileType> types;
  for (auto [value, array] : llvm::zip(values, arrays)) {
    if (array_of(value) == array) continue;
    if (!reads(value, arrays, array)) continue;
    ViewOp copy = new_array(cast<TileType>(value.getType()), last_mode(value));
    fill(value, copy);
    late.emplace_back(copy, array);
    types.push_back(cast<TileType>(value.getType()));
    arrays_[value] = copy;
  }
  for (auto [value, array] : llvm::zip(values, arrays))
    if (array_of(value) != array) fill(value, array);
}

/// Gives the tiles that an op carries their arrays. An initial value whose last use this is lends its own.
void LoopTiles::carry(Operation* op) {
  const auto array_for = [&](Value inside, Value init) {
    ViewOp own = init ? array_of(init) : ViewOp();
    const bool last = own && init.hasOneUse() && init.getParentBlock() == op->getBlock();
    if (!last) {
      own = new_array(cast<TileType>(inside.getType()), last_mode(inside));
      if (init) fill(init, own);
    }
    arrays_[inside] = own;
    return own;
  };
  if (auto loop = dyn_cast<scf::ForOp>(op)) {
    for (auto [argument, init, result] : llvm::zip(loop.getRegionIterArgs(), loop.getInitArgs(), loop.getResults()))
      if (is_tile(argument)) arrays_[result] = array_for(argument, init);
  } else if (auto loop = dyn_cast<scf::WhileOp>(op)) {
    for (auto [argument, init] : llvm::zip(loop.getBeforeArguments(), loop.getInits()))
      if (is_tile(argument)) array_for(argument, init);
    for (auto [argument, result] : llvm::zip(loop.getAfterArguments(), loop.getResults()))
      if (is_tile(argument)) arrays_[result] = array_for(argument, Value());
  } else {
    SmallVector<ViewOp> taken;
    for (const OpResult result : op->getResults()) {
      if (!is_tile(result)) continue;
      auto branch = dyn_cast<scf::IfOp>(op);
      ViewOp array = branch ? lent(branch, result) : ViewOp();
      if (!array || llvm::is_contained(taken, array)) {
        array_for(result, Value());
      } else {
        taken.push_back(array);
        arrays_[result] = array;
      }
    }
  }
}

LogicalResult LoopTiles::lower(Operation* op) {
  b_.setInsertionPoint(op);
  loc_ = op->getLoc();
  for (const Value operand : op->getOperands())
    if (isa<ViewType>(operand.getType()) && !operand.getDefiningOp<ViewOp>())
      return op->emitError("a view that is carried by control flow: carry the offset, and make the view where it is used");
  if (auto tile = dyn_cast<TileStoreOp>(op)) return store(tile), success();
  if (auto tile = dyn_cast<TileCopyOp>(op)) {
    if (!copy_packed(tile)) copy(tile);
    return success();
  }
  if (auto tile = dyn_cast<ReduceOp>(op)) return reduce(tile), success();
  if (auto tile = dyn_cast<TileMmaOp>(op)) return mma(tile);
  const bool wanted = !op->use_empty() || !isMemoryEffectFree(op);
  if (isa<TileLoadOp, MapOp>(op) && plan_.is_array(op) && wanted) materialise(op);
  return success();
}

LogicalResult LoopTiles::block(Block& block) {
  for (Operation& op : llvm::make_early_inc_range(block)) {
    if (isa<BarrierOp, CommitOp, WaitOp>(op)) {
      op.erase();  // one thread does it all, in order
      continue;
    }
    if (isa<TileLoadOp, TileStoreOp, TileCopyOp, SplatOp, IotaOp, MapOp, ReduceOp, BroadcastOp, TransposeOp, RespreadOp,
            TileMmaOp>(op)) {
      tile_ops_.push_back(&op);
      if (failed(lower(&op))) return failure();
      continue;
    }
    b_.setInsertionPoint(&op);
    loc_ = op.getLoc();
    if (isa<scf::YieldOp>(op)) {
      Operation* parent = op.getParentOp();
      ValueRange places = parent->getResults();
      if (auto loop = dyn_cast<scf::WhileOp>(parent)) places = loop.getBeforeArguments();
      assign(tiles_among(op.getOperands()), tiles_among(places));
    } else if (auto condition = dyn_cast<scf::ConditionOp>(op)) {
      assign(tiles_among(condition.getArgs()), tiles_among(cast<scf::WhileOp>(op.getParentOp()).getResults()));
    } else if (isa<scf::ForOp, scf::WhileOp, scf::IfOp, scf::ExecuteRegionOp>(op)) {
      carry(&op);
    } else if (llvm::any_of(op.getOperands(), is_tile) || llvm::any_of(op.getResults(), is_tile)) {
      return op.emitError("tiles are not values of this op");
    }
    for (Region& region : op.getRegions())
      for (Block& inner : region)
        if (failed(this->block(inner))) return failure();
  }
  return success();
}

/// Takes the ops on tiles away, and the tiles out of those that carry them. One thread is left of the block.
void LoopTiles::finish() {
  function_->setAttr("flight.block", DenseI64ArrayAttr::get(function_.getContext(), {1, 1, 1}));
  OpBuilder b = OpBuilder::atBlockBegin(&function_.getBody().front());
  const Value nothing = arith::ConstantIntOp::create(b, function_.getLoc(), 0, 1);
  function_.walk([&](Operation* op) {
    if (isa<FlightDialect>(op->getDialect())) return;
    for (OpOperand& operand : op->getOpOperands())
      if (is_tile(operand.get())) operand.set(nothing);
    for (const Value result : op->getResults())
      if (is_tile(result)) const_cast<Value&>(result).setType(b.getI1Type());
    for (Region& region : op->getRegions())
      for (Block& block : region)
        for (Value argument : block.getArguments())
          if (is_tile(argument)) argument.setType(b.getI1Type());
  });
  for (Operation* op : llvm::reverse(tile_ops_)) {
    op->dropAllUses();
    op->erase();
  }
  for (const auto& [shared, words] : packed_shared_) {
    for (Operation* view : llvm::make_early_inc_range(shared.getUsers())) view->erase();
    shared.getDefiningOp()->erase();
  }
}

LogicalResult LoopTiles::run() {
  try {
    if (failed(find_packed_shared()) || failed(block(function_.getBody().front()))) return failure();
  } catch (const std::invalid_argument& error) {
    return emitError(loc_) << error.what();
  }
  finish();
  return success();
}

namespace {

class TilesToLoops : public PassWrapper<TilesToLoops, OperationPass<ModuleOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TilesToLoops)
  TilesToLoops() = default;
  TilesToLoops(const TilesToLoops& other) : PassWrapper(other) {}
  explicit TilesToLoops(const Vectors& vectors) {
    bytes_ = vectors.bytes;
    registers_ = vectors.registers;
    bf16_dot_ = vectors.bf16_dot;
    int8_dot_ = vectors.int8_dot;
  }

  StringRef getArgument() const override { return "flight-tiles-to-loops"; }
  StringRef getDescription() const override { return "tiles to arrays and vector loops of one CPU thread"; }
  void getDependentDialects(DialectRegistry& registry) const override {
    registry.insert<arith::ArithDialect, math::MathDialect, scf::SCFDialect, vector::VectorDialect, LLVM::LLVMDialect>();
  }
  void runOnOperation() override {
    const Vectors vectors{bytes_, registers_, bf16_dot_, int8_dot_};
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() && failed(LoopTiles(function, vectors).run())) return signalPassFailure();
  }

 private:
  Option<int64_t> bytes_{*this, "bytes", llvm::cl::desc("of a vector register"), llvm::cl::init(64)};
  Option<int64_t> registers_{*this, "registers", llvm::cl::desc("vector registers"), llvm::cl::init(32)};
  Option<bool> bf16_dot_{*this, "bf16-dot", llvm::cl::desc("has AVX512-BF16"), llvm::cl::init(false)};
  Option<bool> int8_dot_{*this, "int8-dot", llvm::cl::desc("has AVX512-VNNI"), llvm::cl::init(false)};
};

}  // namespace

std::unique_ptr<Pass> create_tiles_to_loops(const Vectors& vectors) { return std::make_unique<TilesToLoops>(vectors); }

}  // namespace jaxator::flight
