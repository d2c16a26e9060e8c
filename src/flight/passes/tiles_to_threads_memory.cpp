/// @file
/// Tiles from and to memory: each thread's part of the view through the spread. Full tiles take a branch without masks.
#include "src/flight/passes/tiles.h"
#include "src/flight/passes/tiles_to_threads.h"

namespace jaxator::flight {

using namespace mlir;

namespace {

ViewOp view_of(Value view) { return view.getDefiningOp<ViewOp>(); }

LogicalResult check_view(Operation* op, Value view) {
  if (view_of(view)) return success();
  return op->emitError("a view that is carried by control flow: carry the offset, and make the view where it is used");
}

}  // namespace

LogicalResult ThreadTiles::load(TileLoadOp op) {
  if (failed(check_view(op, op.getSource()))) return failure();
  const Spread& places = spread(op.getType());
  const VectorType type = vector(op.getType());
  const Value source = ThreadView(b_, loc_, view_of(op.getSource()), places.layout, thread()).whole();
  const auto read = [&](Value mask, Value other) -> Value { return LoadOp::create(b_, loc_, type, source, mask, other); };
  const Value full = is_full(b_, loc_, op.getBounds(), places.shape);
  if (!full) return replace(op, read({}, {}));
  Value other = op.getOther();
  if (!other) other = arith::ConstantOp::create(b_, loc_, b_.getZeroAttr(type.getElementType()));
  auto branch = scf::IfOp::create(b_, loc_, type, full, /*withElseRegion=*/true);
  {
    OpBuilder::InsertionGuard guard(b_);
    b_.setInsertionPointToStart(branch.thenBlock());
    scf::YieldOp::create(b_, loc_, read({}, {}));
    b_.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(b_, loc_, read(places.mask(b_, loc_, thread(), op.getBounds()), other));
  }
  return replace(op, branch.getResult(0));
}

LogicalResult ThreadTiles::store(TileStoreOp op) {
  if (failed(check_view(op, op.getDestination()))) return failure();
  const Spread& places = spread_of(op.getValue());
  if_first_copy(places, [&] {
    const Value destination = ThreadView(b_, loc_, view_of(op.getDestination()), places.layout, thread()).whole();
    const Value full = is_full(b_, loc_, op.getBounds(), places.shape);
    const auto write = [&](Value mask) { StoreOp::create(b_, loc_, op.getValue(), destination, mask); };
    if (!full) return write({});
    auto branch = scf::IfOp::create(b_, loc_, full, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b_);
    b_.setInsertionPointToStart(branch.thenBlock());
    write({});
    b_.setInsertionPointToStart(branch.elseBlock());
    write(places.mask(b_, loc_, thread(), op.getBounds()));
  });
  op.erase();
  return success();
}

LogicalResult ThreadTiles::copy(TileCopyOp op) {
  if (failed(check_view(op, op.getSource())) || failed(check_view(op, op.getDestination()))) return failure();
  const Spread places(mode_sizes(parse_view_layout(op.getSource().getType().getLayout()).layout), parse_spread(op.getSpread()));
  const auto type = VectorType::get({places.count()}, op.getSource().getType().getElement());
  if_first_copy(places, [&] {
    const Value source = ThreadView(b_, loc_, view_of(op.getSource()), places.layout, thread()).whole();
    const Value destination = ThreadView(b_, loc_, view_of(op.getDestination()), places.layout, thread()).whole();
    const auto move = [&] {
      if (op.getAsync()) return void(CopyAsyncOp::create(b_, loc_, source, destination, Value()));
      StoreOp::create(b_, loc_, LoadOp::create(b_, loc_, type, source, Value(), Value()), destination, Value());
    };
    const Value full = is_full(b_, loc_, op.getBounds(), places.shape);
    if (!full) return move();
    auto branch = scf::IfOp::create(b_, loc_, full, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b_);
    b_.setInsertionPointToStart(branch.thenBlock());
    move();
    // At the edge each element has a mask of its own, which no asynchronous copy has: through registers.
    b_.setInsertionPointToStart(branch.elseBlock());
    const Value zero = arith::ConstantOp::create(b_, loc_, b_.getZeroAttr(type.getElementType()));
    const Value there = LoadOp::create(b_, loc_, type, source, places.mask(b_, loc_, thread(), op.getBounds()), zero);
    StoreOp::create(b_, loc_, there, destination, Value());
  });
  op.erase();
  return success();
}

}  // namespace jaxator::flight
