/// @file
/// Rules of the ops for whole tiles of a block.
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "src/flight/dialect/dialect.h"
#include "src/flight/dialect/layout.h"

namespace jaxator::flight {

using namespace mlir;

namespace {

layout::IntTuple shape_of(TileType tile) { return parse_tile_layout(tile.getShape(), tile.getSpread()).shape; }

/// The sizes of the top-level modes of a view.
layout::IntTuple shape_of(ViewType view) {
  const ViewLayout parsed = parse_view_layout(view.getLayout());
  layout::IntTuple sizes;
  for (int i = 0; i < parsed.layout.rank(); i++)
    sizes.push(layout::size(parsed.layout.mode(i), layout::Math<layout::Unknown>{"size"}));
  return sizes;
}

bool same_shape(const layout::IntTuple& a, const layout::IntTuple& b) {
  if (a.count != b.count) return false;
  for (int k = 0; k < a.count; k++)
    if (!layout::same(a.leaves[k], b.leaves[k])) return false;
  return true;
}

LogicalResult verify_tile_and_view(Operation* op, TileType tile, ViewType view) {
  if (tile.getElement() != view.getElement())
    return op->emitOpError() << "the tile's element " << tile.getElement() << " is not the view's " << view.getElement();
  if (!same_shape(shape_of(tile), shape_of(view)))
    return op->emitOpError() << "the tile's shape " << tile.getShape() << " is not that of the view \"" << view.getLayout()
                             << "\"";
  return success();
}

LogicalResult verify_bounds(Operation* op, size_t bounds, int rank) {
  if (bounds != 0 && int(bounds) != rank) return op->emitOpError() << bounds << " bounds are given for " << rank << " modes";
  return success();
}

/// The threads of a spread are those of the block.
LogicalResult verify_threads(Operation* op, const layout::Layout& spread) {
  const auto function = op->getParentOfType<FunctionOpInterface>();
  const auto block = function ? function->getAttrOfType<DenseI64ArrayAttr>("flight.block") : nullptr;
  if (!block || block.size() != 3) return success();
  const int64_t threads = block[0] * block[1] * block[2], spread_threads = layout::size(spread.mode(0)).value;
  if (threads != spread_threads)
    return op->emitOpError() << "the spread \"" << to_string(spread) << "\" is for " << spread_threads
                             << " threads, the block has " << threads;
  return success();
}

LogicalResult verify_threads(Operation* op, TileType tile) { return verify_threads(op, parse_spread(tile.getSpread())); }

LogicalResult verify_mode(Operation* op, int64_t mode, int rank) {
  if (mode < 0 || mode >= rank) return op->emitOpError() << "mode " << mode << " is not one of " << rank;
  return success();
}

}  // namespace

LogicalResult TileLoadOp::verify() {
  const auto tile = getResult().getType();
  if (failed(verify_tile_and_view(*this, tile, getSource().getType())) || failed(verify_threads(*this, tile))) return failure();
  if (getOther() && getOther().getType() != tile.getElement())
    return emitOpError() << "`other` " << getOther().getType() << " must be the element " << tile.getElement();
  return verify_bounds(*this, getBounds().size(), shape_of(tile).rank());
}

LogicalResult TileStoreOp::verify() {
  const auto tile = getValue().getType();
  if (failed(verify_tile_and_view(*this, tile, getDestination().getType())) || failed(verify_threads(*this, tile)))
    return failure();
  return verify_bounds(*this, getBounds().size(), shape_of(tile).rank());
}

LogicalResult SplatOp::verify() {
  if (getValue().getType() != getResult().getType().getElement())
    return emitOpError() << "value " << getValue().getType() << " must be the element " << getResult().getType().getElement();
  return verify_threads(*this, getResult().getType());
}

LogicalResult IotaOp::verify() {
  const auto tile = getResult().getType();
  if (!tile.getElement().isInteger(32)) return emitOpError() << "element " << tile.getElement() << " must be i32";
  if (failed(verify_threads(*this, tile))) return failure();
  return verify_mode(*this, getMode(), shape_of(tile).rank());
}

LogicalResult MapOp::verify() {
  if (getInputs().empty() && getResults().empty()) return emitOpError() << "needs an operand or a result";
  const auto first = cast<TileType>(getInputs().empty() ? getResults()[0].getType() : getInputs()[0].getType());
  SmallVector<Type> all = llvm::to_vector(getInputs().getTypes());
  llvm::append_range(all, getResults().getTypes());
  for (const Type type : all) {
    const auto tile = cast<TileType>(type);
    if (tile.getShape() != first.getShape() || tile.getSpread() != first.getSpread())
      return emitOpError() << tile << " and " << first << " must have the same shape and spread";
  }
  Block& body = getBody().front();
  if (body.getNumArguments() != getInputs().size())
    return emitOpError() << "the body has " << body.getNumArguments() << " arguments for " << getInputs().size() << " tiles";
  for (auto [argument, input] : llvm::zip(body.getArguments(), getInputs()))
    if (argument.getType() != cast<TileType>(input.getType()).getElement())
      return emitOpError() << "argument " << argument.getType() << " of the body must be the element of " << input.getType();
  auto yield = dyn_cast<YieldOp>(body.getTerminator());
  if (!yield || yield.getValues().size() != getNumResults())
    return emitOpError() << "the body must end with a yield of " << getNumResults() << " values";
  for (auto [value, result] : llvm::zip(yield.getValues(), getResults()))
    if (value.getType() != cast<TileType>(result.getType()).getElement())
      return emitOpError() << "yields " << value.getType() << " for an element of " << result.getType();
  return verify_threads(*this, first);
}

LogicalResult ReduceOp::verify() {
  const auto from = getInput().getType(), to = getResult().getType();
  if (from.getElement() != to.getElement())
    return emitOpError() << "elements " << from.getElement() << " and " << to.getElement() << " differ";
  layout::IntTuple shape = shape_of(from);
  if (failed(verify_mode(*this, getMode(), shape.rank()))) return failure();
  shape.leaves[getMode()] = 1;
  if (!same_shape(shape, shape_of(to)))
    return emitOpError() << "the shape " << from.getShape() << " along " << getMode() << " becomes " << to_string(shape)
                         << ", not " << to.getShape();
  return verify_threads(*this, to);
}

LogicalResult BroadcastOp::verify() {
  const auto from = getInput().getType(), to = getResult().getType();
  if (from.getElement() != to.getElement())
    return emitOpError() << "elements " << from.getElement() << " and " << to.getElement() << " differ";
  const layout::IntTuple a = shape_of(from), b = shape_of(to);
  bool fits = a.count == b.count;
  for (int k = 0; fits && k < a.count; k++) fits = a.leaves[k].is(1) || a.leaves[k] == b.leaves[k];
  if (!fits) return emitOpError() << "the shape " << from.getShape() << " cannot be repeated to " << to.getShape();
  return verify_threads(*this, to);
}

LogicalResult TransposeOp::verify() {
  const auto from = getInput().getType(), to = getResult().getType();
  const layout::IntTuple a = shape_of(from), b = shape_of(to);
  const ArrayRef<int64_t> order = getOrder();
  bool fits = from.getElement() == to.getElement() && a.count == b.count && order.size() == size_t(a.count);
  unsigned seen = 0;
  for (int k = 0; fits && k < a.count; k++) {
    fits = order[k] >= 0 && order[k] < a.count && a.leaves[order[k]] == b.leaves[k];
    if (fits) seen |= 1u << order[k];
  }
  if (!fits || seen + 1 != 1u << a.count) return emitOpError() << from << " in this order of modes is not " << to;
  return verify_threads(*this, to);
}

LogicalResult RespreadOp::verify() {
  const auto from = getInput().getType(), to = getResult().getType();
  if (from.getElement() != to.getElement() || from.getShape() != to.getShape())
    return emitOpError() << from << " and " << to << " must differ in the spread only";
  if (failed(verify_threads(*this, from))) return failure();
  return verify_threads(*this, to);
}

LogicalResult TileCopyOp::verify() {
  const auto from = getSource().getType(), to = getDestination().getType();
  if (from.getElement() != to.getElement())
    return emitOpError() << "elements " << from.getElement() << " and " << to.getElement() << " differ";
  if (from.getSpace() != Space::Global || to.getSpace() != Space::Shared)
    return emitOpError() << "copies from global to shared memory";
  const layout::IntTuple shape = shape_of(from);
  if (!same_shape(shape, shape_of(to)))
    return emitOpError() << "copies \"" << from.getLayout() << "\" to the other shape of \"" << to.getLayout() << "\"";
  try {
    const TileLayout tile = parse_tile_layout(to_string(shape), getSpread());
    if (failed(verify_threads(*this, tile.spread))) return failure();
  } catch (const std::invalid_argument& error) {
    return emitOpError() << "spread \"" << getSpread() << "\": " << error.what();
  }
  return verify_bounds(*this, getBounds().size(), shape.rank());
}

LogicalResult TileMmaOp::verify() {
  const auto shape = [](Type type) {
    const auto tile = dyn_cast<TileType>(type);
    return tile ? shape_of(tile) : shape_of(cast<ViewType>(type));
  };
  const layout::IntTuple a = shape(getA().getType()), b = shape(getB().getType()), c = shape_of(getC().getType());
  if (a.rank() != 2 || b.rank() != 2 || c.rank() != 2) return emitOpError() << "A, B and C have two modes each";
  if (!layout::same(a.leaves[0], c.leaves[0]) || !layout::same(b.leaves[0], c.leaves[1]) ||
      !layout::same(a.leaves[1], b.leaves[1]))
    return emitOpError() << "A " << to_string(a) << ", B " << to_string(b) << " and C " << to_string(c)
                         << " must be (M,K), (N,K) and (M,N)";
  return verify_threads(*this, getC().getType());
}

}  // namespace jaxator::flight
