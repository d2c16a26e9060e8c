/// @file
/// Elements of tiles as vectors: read from arrays and views, or computed.
#include "src/flight/passes/tiles.h"
#include "src/flight/passes/tiles_to_loops.h"

namespace jaxator::flight {

using namespace mlir;
using layout::Int;
using layout::IntTuple;
using layout::Layout;

namespace {

/// Memory has no bits.
Type stored(Type element) { return element.isInteger(1) ? Type(IntegerType::get(element.getContext(), 8)) : element; }

/// The first `width` coordinates of a mode.
Layout run_of(const Layout& mode, int64_t width) {
  Layout result;
  for (int k = 0; k < mode.count && width > 1; k++) {
    const int64_t size = std::min<int64_t>(width, mode.leaves[k].shape.value);
    if (size > 1) result.push(layout::Mode{size, mode.leaves[k].stride});
    width /= size;
  }
  return result.count == 0 ? Layout(layout::Mode{1, 0}) : result.unwrap();
}

}  // namespace

ViewOp LoopTiles::new_memory(Type element, ArrayRef<int64_t> shape, ArrayRef<int64_t> strides) {
  OpBuilder b = OpBuilder::atBlockBegin(&function_.getBody().front());
  Layout layout;
  int64_t count = 1;
  for (auto [size, stride] : llvm::zip(shape, strides)) {
    layout.push(layout::Mode{size, stride});
    count = std::max(count, size * stride);
  }
  const Type kept = stored(element);
  auto memory =
      SharedOp::create(b, function_.getLoc(), PtrType::get(b.getContext(), kept, Space::Shared, 64), b.getI64IntegerAttr(count));
  memory->setAttr("tile", b.getUnitAttr());
  const auto type = ViewType::get(b.getContext(), kept, Space::Shared, to_string(layout), 64);
  const Value zero = arith::ConstantIndexOp::create(b, function_.getLoc(), 0);
  return ViewOp::create(b, function_.getLoc(), type, memory.getResult(), zero, ValueRange());
}

ViewOp LoopTiles::new_array(TileType tile, int fastest) {
  const SmallVector<int64_t> shape = sizes_of(parse_tile_layout(tile.getShape(), tile.getSpread()).shape);
  SmallVector<int64_t> strides(shape.size(), 0);
  int64_t next = 1;
  const auto place = [&](int mode) {
    strides[mode] = next;
    next *= shape[mode];
  };
  place(fastest);
  for (int mode = int(shape.size()) - 1; mode >= 0; mode--)
    if (mode != fastest) place(mode);
  return new_memory(tile.getElement(), shape, strides);
}

/// The view of the elements of a place.
Value LoopTiles::at(ViewOp view, const Place& place) {
  ViewPart part(b_, loc_, view);
  const Layout& layout = part.view_layout().layout;
  IntTuple coordinate;
  for (int mode = 0; mode < layout.rank(); mode++) {
    const auto constant = getConstantIntValue(place.at[mode]);
    coordinate.push(constant ? Int(*constant) : part.handle(place.at[mode], mode == place.mode ? place.multiple : 1));
  }
  const Int start = part.index_of(layout.rank() == 1 ? IntTuple(coordinate.leaves[0]) : coordinate,
                                  layout.rank() == 1 ? layout.mode(0) : layout);
  return part.part(run_of(layout.mode(place.mode), place.width), start);
}

Value LoopTiles::read(ViewOp view, const Place& place, Value mask, Value other) {
  const auto type = VectorType::get({place.width}, view.getResult().getType().getElement());
  return LoadOp::create(b_, loc_, type, at(view, place), mask, other);
}

void LoopTiles::write(Value value, ViewOp view, const Place& place, Value mask) {
  const Type element = view.getResult().getType().getElement();
  StoreOp::create(b_, loc_, convert(b_, loc_, value, element), at(view, place), mask);
}

Value LoopTiles::iota(int mode, const Place& place) {
  const auto type = VectorType::get({place.width}, b_.getI32Type());
  const Value first = arith::IndexCastOp::create(b_, loc_, b_.getI32Type(), place.at[mode]);
  const Value all = vector::BroadcastOp::create(b_, loc_, type, first);
  if (mode != place.mode || place.width == 1) return all;
  SmallVector<int32_t> steps(place.width);
  for (int64_t i = 0; i < place.width; i++) steps[i] = int32_t(i);
  return arith::AddIOp::create(b_, loc_, all,
                               arith::ConstantOp::create(b_, loc_, type, DenseElementsAttr::get(type, ArrayRef<int32_t>(steps))));
}

/// Null: all of the place is there.
Value LoopTiles::mask(ValueRange bounds, ArrayRef<int64_t> shape, const Place& place) {
  const auto bits = VectorType::get({place.width}, b_.getI1Type()), numbers = VectorType::get({place.width}, b_.getI32Type());
  Value all;
  for (auto [mode, bound] : llvm::enumerate(bounds)) {
    if (const auto constant = getConstantIntValue(bound); constant && *constant >= shape[mode]) continue;
    Value inside;
    if (int(mode) == place.mode && place.width > 1) {
      SmallVector<int32_t> lanes(place.width);
      for (int64_t i = 0; i < place.width; i++) lanes[i] = int32_t(i);
      const Value lane = arith::ConstantOp::create(b_, loc_, numbers, DenseElementsAttr::get(numbers, ArrayRef<int32_t>(lanes)));
      const Value there = elements_there(b_, loc_, bound, place.at[mode], place.width);
      inside =
          arith::CmpIOp::create(b_, loc_, arith::CmpIPredicate::slt, lane, vector::BroadcastOp::create(b_, loc_, numbers, there));
    } else {
      const Value one = arith::CmpIOp::create(b_, loc_, arith::CmpIPredicate::slt, place.at[mode], bound);
      inside = vector::BroadcastOp::create(b_, loc_, bits, one);
    }
    all = all ? Value(arith::AndIOp::create(b_, loc_, all, inside)) : inside;
  }
  return all;
}

/// The place in a tile whose modes of size 1 are repeated.
Place LoopTiles::projected(const Place& place, ArrayRef<int64_t> shape, bool& repeated) {
  Place result = place;
  for (auto [mode, size] : llvm::enumerate(shape))
    if (size == 1) result.at[mode] = index(0);
  repeated = shape[place.mode] == 1 && place.width > 1;
  if (repeated) result.width = 1;
  return result;
}

SmallVector<Value> LoopTiles::evaluate_map(MapOp map, const Place& place) {
  SmallVector<Value> inputs;
  for (const Value input : map.getInputs()) inputs.push_back(evaluate(input, place));
  return map_vectors(b_, map, inputs, place.width);
}

Value LoopTiles::evaluate(Value tile, const Place& place) {
  const auto type = VectorType::get({place.width}, cast<TileType>(tile.getType()).getElement());
  if (ViewOp array = array_of(tile)) return convert(b_, loc_, read(array, place), type.getElementType());
  Operation* op = tile.getDefiningOp();
  if (auto splat = dyn_cast<SplatOp>(op)) return vector::BroadcastOp::create(b_, loc_, type, splat.getValue());
  if (auto counter = dyn_cast<IotaOp>(op)) return iota(int(counter.getMode()), place);
  if (auto respread = dyn_cast<RespreadOp>(op)) return evaluate(respread.getInput(), place);
  if (auto map = dyn_cast<MapOp>(op)) return evaluate_map(map, place)[cast<OpResult>(tile).getResultNumber()];
  if (auto load = dyn_cast<TileLoadOp>(op)) {
    const auto view = load.getSource().getDefiningOp<ViewOp>();
    const SmallVector<int64_t> shape = sizes_of(parse_tile_layout(load.getType().getShape(), load.getType().getSpread()).shape);
    const Value there = place.masked ? mask(load.getBounds(), shape, place) : Value();
    return read(view, place, there, there ? load.getOther() : Value());
  }
  if (auto transpose = dyn_cast<TransposeOp>(op)) {
    Place from = place;
    for (auto [k, mode] : llvm::enumerate(transpose.getOrder())) {
      from.at[mode] = place.at[k];
      if (int(k) == place.mode) from.mode = int(mode);
    }
    return evaluate(transpose.getInput(), from);
  }
  auto broadcast = cast<BroadcastOp>(op);
  const auto input = cast<TileType>(broadcast.getInput().getType());
  bool repeated = false;
  const Place from = projected(place, sizes_of(parse_tile_layout(input.getShape(), input.getSpread()).shape), repeated);
  const Value value = evaluate(broadcast.getInput(), from);
  return repeated ? Value(vector::BroadcastOp::create(b_, loc_, type, vector::ExtractOp::create(b_, loc_, value, 0))) : value;
}

}  // namespace jaxator::flight
