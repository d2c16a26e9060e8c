/// @file
/// Tiles to each thread's vector. A value of a tile type becomes the vector of its thread's elements, everywhere, and each op on
/// tiles becomes ops on vectors, in place.
#include "src/flight/passes/tiles_to_threads.h"

#include <stdexcept>

#include "src/flight/passes/passes.h"
#include "src/flight/passes/tiles.h"

namespace jaxator::flight {

using namespace mlir;

const Spread& ThreadTiles::spread(Type tile) {
  auto& known = spreads_[tile];
  if (!known) known = std::make_unique<Spread>(cast<TileType>(tile));
  return *known;
}

VectorType ThreadTiles::vector(Type tile) { return VectorType::get({spread(tile).count()}, cast<TileType>(tile).getElement()); }

LogicalResult ThreadTiles::replace(Operation* op, ValueRange values) {
  for (auto [result, value] : llvm::zip(op->getResults(), values)) tiles_[value] = result.getType();
  op->replaceAllUsesWith(values);
  op->erase();
  return success();
}

Value ThreadTiles::thread() {
  if (thread_) return thread_;
  OpBuilder b = OpBuilder::atBlockBegin(&function_.getBody().front());
  const Location loc = function_.getLoc();
  const auto block = function_->getAttrOfType<DenseI64ArrayAttr>("flight.block");
  int64_t weight = 1;
  for (const auto axis : {Axis::X, Axis::Y, Axis::Z}) {
    const int64_t extent = block[int(axis)];
    if (extent == 1) continue;
    Value id = ThreadIdOp::create(b, loc, b.getIndexType(), axis);
    if (weight > 1) id = arith::MulIOp::create(b, loc, id, arith::ConstantIndexOp::create(b, loc, weight));
    thread_ = thread_ ? Value(arith::AddIOp::create(b, loc, thread_, id)) : id;
    weight *= extent;
  }
  if (!thread_) thread_ = arith::ConstantIndexOp::create(b, loc, 0);
  return thread_;
}

Value ThreadTiles::scratch(Type element, int64_t count) {
  SharedOp& op = scratch_[element];
  if (!op) {
    OpBuilder b = OpBuilder::atBlockBegin(&function_.getBody().front());
    const auto type = PtrType::get(b.getContext(), element, Space::Shared, 16);
    op = SharedOp::create(b, function_.getLoc(), type, b.getI64IntegerAttr(0));
  }
  op.setCount(std::max<int64_t>(op.getCount(), count));
  return op.getResult();
}

Value ThreadTiles::view(Value pointer, Value offset, const layout::Layout& layout) {
  const auto type = cast<PtrType>(pointer.getType());
  const int64_t align = std::max<int64_t>(1, type.getElement().getIntOrFloatBitWidth() / 8);
  const auto result = ViewType::get(b_.getContext(), type.getElement(), type.getSpace(), to_string(layout), align);
  return ViewOp::create(b_, loc_, result, pointer, offset, ValueRange());
}

void ThreadTiles::if_first_copy(const Spread& spread, function_ref<void()> body) {
  const Value first = spread.first_copy(b_, loc_, thread());
  if (!first) return body();
  OpBuilder::InsertionGuard guard(b_);
  auto branch = scf::IfOp::create(b_, loc_, first, /*withElseRegion=*/false);
  b_.setInsertionPointToStart(branch.thenBlock());
  body();
}

LogicalResult ThreadTiles::splat(SplatOp op) {
  return replace(op, Value(vector::BroadcastOp::create(b_, loc_, vector(op.getType()), op.getValue())));
}

LogicalResult ThreadTiles::iota(IotaOp op) {
  const Spread& places = spread(op.getType());
  const int mode = int(op.getMode());
  SmallVector<int32_t> parts;
  for (const Coordinates& at : places.values) parts.push_back(int32_t(at[mode]));
  const VectorType type = vector(op.getType());
  const Value own = arith::ConstantOp::create(b_, loc_, type, DenseElementsAttr::get(type, ArrayRef<int32_t>(parts)));
  const Value start = arith::IndexCastOp::create(b_, loc_, b_.getI32Type(), places.coordinate(b_, loc_, thread(), mode));
  return replace(op, Value(arith::AddIOp::create(b_, loc_, vector::BroadcastOp::create(b_, loc_, type, start), own)));
}

LogicalResult ThreadTiles::map(MapOp op) {
  const Type tile = op.getNumResults() > 0 ? op.getResultTypes()[0] : tiles_.at(op.getInputs()[0]);
  return replace(op, map_vectors(b_, op, llvm::to_vector(op.getInputs()), spread(tile).count()));
}

LogicalResult ThreadTiles::rearrange(Operation* op, function_ref<Coordinates(Coordinates)> project, const char* rule) {
  const Value input = op->getOperand(0);
  const auto places = value_map(spread_of(input), spread(op->getResult(0).getType()), project);
  if (!places) return op->emitError() << rule << ": " << tiles_.at(input) << " to " << op->getResult(0).getType();
  return replace(op, Value(vector::ShuffleOp::create(b_, loc_, input, input, *places)));
}

LogicalResult ThreadTiles::lower(Operation* op) {
  b_.setInsertionPoint(op);
  loc_ = op->getLoc();
  if (auto tile = dyn_cast<TileLoadOp>(op)) return load(tile);
  if (auto tile = dyn_cast<TileStoreOp>(op)) return store(tile);
  if (auto tile = dyn_cast<TileCopyOp>(op)) return copy(tile);
  if (auto tile = dyn_cast<SplatOp>(op)) return splat(tile);
  if (auto tile = dyn_cast<IotaOp>(op)) return iota(tile);
  if (auto tile = dyn_cast<MapOp>(op)) return map(tile);
  if (auto tile = dyn_cast<ReduceOp>(op)) return reduce(tile);
  if (auto tile = dyn_cast<RespreadOp>(op)) return respread(tile);
  if (auto tile = dyn_cast<TileMmaOp>(op)) return mma(tile);
  if (isa<BroadcastOp>(op)) {
    const Spread& from = spread_of(op->getOperand(0));
    const auto project = [&](Coordinates at) {
      for (auto [coordinate, size] : llvm::zip(at, from.shape)) coordinate = size == 1 ? 0 : coordinate;
      return at;
    };
    return rearrange(op, project, "each thread must hold what it repeats (a respread before does that)");
  }
  auto transpose = cast<TransposeOp>(op);
  const auto project = [&](Coordinates at) {
    Coordinates from(at.size(), 0);
    for (auto [k, mode] : llvm::enumerate(transpose.getOrder())) from[mode] = at[k];
    return from;
  };
  return rearrange(op, project, "a transpose moves no value between threads (a respread before does that)");
}

LogicalResult ThreadTiles::run() {
  SmallVector<Operation*> ops;
  const auto remember = [&](Value value) {
    if (isa<TileType>(value.getType())) tiles_[value] = value.getType();
  };
  function_.walk<WalkOrder::PreOrder>([&](Operation* op) {
    for (const Value result : op->getResults()) remember(result);
    for (Region& region : op->getRegions())
      for (Block& block : region)
        for (const Value argument : block.getArguments()) remember(argument);
    if (isa<TileLoadOp, TileStoreOp, TileCopyOp, SplatOp, IotaOp, MapOp, ReduceOp, BroadcastOp, TransposeOp, RespreadOp,
            TileMmaOp>(op))
      ops.push_back(op);
  });
  if (ops.empty()) return success();
  if (!function_->getAttrOfType<DenseI64ArrayAttr>("flight.block")) return function_.emitError("needs flight.block for tiles");
  // Carried tiles: what yields and takes them needs no change but the type.
  for (auto [value, tile] : llvm::to_vector(tiles_))
    if (isa<BlockArgument>(value) || !llvm::is_contained(ops, value.getDefiningOp())) {
      if (!isa<BlockArgument>(value) &&
          !isa<scf::ForOp, scf::IfOp, scf::WhileOp, scf::ExecuteRegionOp, arith::SelectOp>(value.getDefiningOp()))
        return value.getDefiningOp()->emitError("tiles are not values of this op");
      const_cast<Value&>(value).setType(vector(tile));
    }
  for (Operation* op : ops) {
    try {
      if (failed(lower(op))) return failure();
    } catch (const std::invalid_argument& error) {
      return op->emitError() << error.what();
    }
  }
  return success();
}

namespace {

class TilesToThreads : public PassWrapper<TilesToThreads, OperationPass<ModuleOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TilesToThreads)
  TilesToThreads() = default;
  TilesToThreads(const TilesToThreads& other) : PassWrapper(other) {}
  explicit TilesToThreads(const Target& target) { target_ = target.name; }

  StringRef getArgument() const override { return "flight-tiles-to-threads"; }
  StringRef getDescription() const override { return "tiles to each thread's vector"; }
  void getDependentDialects(DialectRegistry& registry) const override {
    registry.insert<arith::ArithDialect, math::MathDialect, scf::SCFDialect, vector::VectorDialect, LLVM::LLVMDialect>();
  }

  void runOnOperation() override {
    const Target* target = find_target(target_);
    if (target == nullptr) {
      getOperation().emitError() << "target " << target_ << " is not one of " << target_names();
      return signalPassFailure();
    }
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() && failed(ThreadTiles(function, *target).run())) return signalPassFailure();
  }

 private:
  Option<std::string> target_{*this, "target", llvm::cl::desc("the machine"), llvm::cl::init("gfx942")};
};

}  // namespace

std::unique_ptr<Pass> create_tiles_to_threads(const Target& target) { return std::make_unique<TilesToThreads>(target); }

}  // namespace jaxator::flight
