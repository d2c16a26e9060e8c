/// @file
/// Loop nests over tiles.
#include "src/flight/passes/tiles.h"
#include "src/flight/passes/tiles_to_loops.h"

namespace jaxator::flight {

using namespace mlir;
using layout::Layout;

namespace {

SmallVector<int64_t> shape_of(Type tile) {
  return sizes_of(layout::parse<layout::IntTuple>(cast<TileType>(tile).getShape().str()));
}

SmallVector<int> all_modes(size_t rank) {
  SmallVector<int> modes(rank);
  for (size_t i = 0; i < rank; i++) modes[i] = int(i);
  return modes;
}

bool contiguous(ViewOp view, int mode) {
  const Layout layout = parse_view_layout(view.getResult().getType().getLayout()).layout.mode(mode);
  for (int k = 0; k < layout.count; k++)
    if (!layout.leaves[k].shape.is(1)) return layout.leaves[k].stride.is(1);
  return false;
}

int64_t widest(MapOp map) {
  int64_t bits = 8;
  map.getBody().walk([&](Operation* op) {
    for (const Type type : op->getResultTypes())
      if (type.isIntOrFloat()) bits = std::max<int64_t>(bits, type.getIntOrFloatBitWidth());
  });
  return bits;
}

}  // namespace

bool has_runs(ViewOp view, int mode, int64_t width) {
  const Layout layout = parse_view_layout(view.getResult().getType().getLayout()).layout.mode(mode);
  if (layout.count == 1) return true;
  for (int k = 0; k < layout.count && width > 1; k++) {
    const int64_t size = layout.leaves[k].shape.value;
    if (size % width == 0) return layout::size(layout).value % width == 0;
    if (width % size != 0) return false;
    width /= size;
  }
  return true;
}

void LoopTiles::add_bounds(ValueRange bounds, ArrayRef<int64_t> shape, Facts& facts) {
  const Value full = is_full(b_, loc_, bounds, shape);
  if (full) facts.full = facts.full ? Value(arith::AndIOp::create(b_, loc_, facts.full, full)) : full;
}

void LoopTiles::inspect(Value tile, SmallVector<int> modes, Facts& facts) {
  const auto type = cast<TileType>(tile.getType());
  facts.bits = std::max<int64_t>(facts.bits, type.getElement().getIntOrFloatBitWidth());
  if (ViewOp array = array_of(tile)) return void(facts.views.emplace_back(array, modes));
  Operation* op = tile.getDefiningOp();
  if (auto load = dyn_cast<TileLoadOp>(op)) {
    facts.views.emplace_back(load.getSource().getDefiningOp<ViewOp>(), modes);
    return add_bounds(load.getBounds(), shape_of(type), facts);
  }
  if (auto map = dyn_cast<MapOp>(op)) {
    facts.bits = std::max(facts.bits, widest(map));
    for (const Value input : map.getInputs()) inspect(input, modes, facts);
  } else if (auto respread = dyn_cast<RespreadOp>(op)) {
    inspect(respread.getInput(), modes, facts);
  } else if (auto transpose = dyn_cast<TransposeOp>(op)) {
    for (int& mode : modes)
      if (mode >= 0) mode = int(transpose.getOrder()[mode]);
    inspect(transpose.getInput(), modes, facts);
  } else if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    const SmallVector<int64_t> from = shape_of(broadcast.getInput().getType());
    for (int& mode : modes)
      if (mode >= 0 && from[mode] == 1) mode = -1;
    inspect(broadcast.getInput(), modes, facts);
  }
}

int LoopTiles::contiguous_mode(const Facts& facts, int64_t rank) const {
  for (const auto& [view, modes] : facts.views)
    for (int64_t k = rank - 1; k >= 0; k--)
      if (modes[k] >= 0 && contiguous(view, modes[k])) return int(k);
  return int(rank) - 1;
}

/// Vectors of the widest element that fill a register, or less where a layout has shorter runs.
LoopTiles::Nest LoopTiles::nest_of(ArrayRef<int64_t> shape, const Facts& facts, int mode) {
  if (shape[mode] == 1)
    for (auto [k, size] : llvm::enumerate(shape)) mode = size > shape[mode] ? int(k) : mode;
  int64_t width = std::min<int64_t>(vectors_.bytes * 8 / facts.bits, llvm::bit_ceil(uint64_t(shape[mode])));
  const auto fits = [&] {
    return llvm::all_of(facts.views, [&](const auto& part) {
      const auto& [view, modes] = part;
      return modes[mode] < 0 || has_runs(view, modes[mode], width);
    });
  };
  while (width > 1 && !fits()) width /= 2;
  return {SmallVector<int64_t>(shape), mode, std::min(width, shape[mode]), facts.full};
}

void LoopTiles::versions(const Nest& nest, function_ref<void(bool)> body) {
  if (!nest.full) return body(false);
  auto branch = scf::IfOp::create(b_, loc_, nest.full, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b_);
  b_.setInsertionPointToStart(branch.thenBlock());
  body(false);
  b_.setInsertionPointToStart(branch.elseBlock());
  body(true);
}

/// Runs along the nest's mode, the last one shorter.
void LoopTiles::along(const Nest& nest, Place& place, function_ref<void(const Place&)> body) {
  const int64_t size = nest.shape[nest.mode], whole = size / nest.width * nest.width;
  if (whole == nest.width) {
    place.at[nest.mode] = index(0);
    body(place);
  } else if (whole > 0) {
    auto loop = scf::ForOp::create(b_, loc_, index(0), index(whole), index(nest.width));
    OpBuilder::InsertionGuard guard(b_);
    b_.setInsertionPointToStart(loop.getBody());
    place.at[nest.mode] = loop.getInductionVar();
    body(place);
  }
  if (whole == size) return;
  Place rest = place;
  rest.at[nest.mode] = index(whole);
  rest.width = size - whole;
  body(rest);
}

/// The body at every place, but not along the mode `skipped`.
void LoopTiles::loops(const Nest& nest, bool masked, function_ref<void(const Place&)> body, int skipped) {
  OpBuilder::InsertionGuard guard(b_);
  Place place{SmallVector<Value>(nest.shape.size(), index(0)), nest.mode, nest.width, nest.width, masked};
  for (auto [mode, size] : llvm::enumerate(nest.shape)) {
    if (int(mode) == nest.mode || int(mode) == skipped || size == 1) continue;
    auto loop = scf::ForOp::create(b_, loc_, index(0), index(size), index(1));
    b_.setInsertionPointToStart(loop.getBody());
    place.at[mode] = loop.getInductionVar();
  }
  if (skipped == nest.mode) return body(place);
  along(nest, place, body);
}

void LoopTiles::fill(Value tile, ViewOp array) {
  Facts facts;
  const SmallVector<int64_t> shape = shape_of(tile.getType());
  const SmallVector<int> modes = all_modes(shape.size());
  inspect(tile, modes, facts);
  facts.views.emplace_back(array, modes);
  Facts own;
  own.views.emplace_back(array, modes);
  const Nest nest = nest_of(shape, facts, contiguous_mode(own, int64_t(shape.size())));
  versions(nest,
           [&](bool masked) { loops(nest, masked, [&](const Place& place) { write(evaluate(tile, place), array, place); }); });
}

/// All results of an op as arrays, in one nest.
void LoopTiles::materialise(Operation* op) {
  Facts facts;
  const SmallVector<int64_t> shape = shape_of(op->getResultTypes()[0]);
  const SmallVector<int> modes = all_modes(shape.size());
  for (const Value result : op->getResults()) inspect(result, modes, facts);
  const int mode = contiguous_mode(facts, int64_t(shape.size()));
  SmallVector<ViewOp> arrays;
  for (const Type type : op->getResultTypes()) arrays.push_back(new_array(cast<TileType>(type), mode));
  const Nest nest = nest_of(shape, facts, mode);
  versions(nest, [&](bool masked) {
    loops(nest, masked, [&](const Place& place) {
      SmallVector<Value> values;
      if (auto map = dyn_cast<MapOp>(op))
        values = evaluate_map(map, place);
      else
        values.push_back(evaluate(op->getResult(0), place));
      for (auto [value, array] : llvm::zip(values, arrays)) write(value, array, place);
    });
  });
  for (auto [result, array] : llvm::zip(op->getResults(), arrays)) arrays_[result] = array;
}

void LoopTiles::store(TileStoreOp op) {
  const auto view = op.getDestination().getDefiningOp<ViewOp>();
  const SmallVector<int64_t> shape = shape_of(op.getValue().getType());
  Facts facts;
  facts.views.emplace_back(view, all_modes(shape.size()));
  inspect(op.getValue(), all_modes(shape.size()), facts);
  add_bounds(op.getBounds(), shape, facts);
  const Nest nest = nest_of(shape, facts, contiguous_mode(facts, int64_t(shape.size())));
  versions(nest, [&](bool masked) {
    loops(nest, masked, [&](const Place& place) {
      const Value value = evaluate(op.getValue(), place);
      write(value, view, place, masked ? mask(op.getBounds(), shape, place) : Value());
    });
  });
}

void LoopTiles::copy(TileCopyOp op) {
  const auto from = op.getSource().getDefiningOp<ViewOp>(), to = op.getDestination().getDefiningOp<ViewOp>();
  const SmallVector<int64_t> shape = sizes_of(mode_sizes(parse_view_layout(op.getSource().getType().getLayout()).layout));
  Facts facts;
  facts.bits = op.getSource().getType().getElement().getIntOrFloatBitWidth();
  facts.views.emplace_back(from, all_modes(shape.size()));
  facts.views.emplace_back(to, all_modes(shape.size()));
  add_bounds(op.getBounds(), shape, facts);
  const Nest nest = nest_of(shape, facts, contiguous_mode(facts, int64_t(shape.size())));
  versions(nest, [&](bool masked) {
    loops(nest, masked, [&](const Place& place) {
      write(read(from, place, masked ? mask(op.getBounds(), shape, place) : Value()), to, place);
    });
  });
}

/// Halves, then halves of them.
Value LoopTiles::reduce_vector(Combine kind, Value vector) {
  int64_t count = cast<VectorType>(vector.getType()).getNumElements();
  SmallVector<Value> odd;
  while (count > 1) {
    if (count % 2 == 1) odd.push_back(vector::ExtractOp::create(b_, loc_, vector, count - 1));
    count /= 2;
    SmallVector<int64_t> low, high;
    for (int64_t i = 0; i < count; i++) low.push_back(i), high.push_back(count + i);
    const Value first = vector::ShuffleOp::create(b_, loc_, vector, vector, low);
    vector = combine(b_, loc_, kind, first, vector::ShuffleOp::create(b_, loc_, vector, vector, high));
  }
  Value result = vector::ExtractOp::create(b_, loc_, vector, 0);
  for (const Value one : odd) result = combine(b_, loc_, kind, result, one);
  return result;
}

/// Along the mode of the vectors: several sums at a time, so that an addition need not wait for the one before it.
void LoopTiles::reduce_runs(ReduceOp op, const Nest& nest, Place place, ViewOp array) {
  const Type element = working_type(op.getType().getElement());
  const auto type = VectorType::get({nest.width}, element);
  const int64_t size = nest.shape[nest.mode], count = size / nest.width;
  const int64_t sums = count % 4 == 0 ? 4 : count % 2 == 0 ? 2 : 1;
  const auto value_at = [&](Value at, int64_t width) {
    Place here = place;
    here.at[nest.mode] = at;
    here.width = width;
    return convert(b_, loc_, evaluate(op.getInput(), here), element);
  };
  const Value none =
      arith::ConstantOp::create(b_, loc_, type, DenseElementsAttr::get(type, Attribute(neutral(op.getCombine(), element))));
  auto loop =
      scf::ForOp::create(b_, loc_, index(0), index(count * nest.width), index(sums * nest.width), SmallVector<Value>(sums, none));
  {
    OpBuilder::InsertionGuard guard(b_);
    b_.setInsertionPointToStart(loop.getBody());
    SmallVector<Value> next;
    for (int64_t i = 0; i < sums; i++) {
      const Value at = arith::AddIOp::create(b_, loc_, loop.getInductionVar(), index(i * nest.width));
      next.push_back(combine(b_, loc_, op.getCombine(), loop.getRegionIterArg(unsigned(i)), value_at(at, nest.width)));
    }
    scf::YieldOp::create(b_, loc_, next);
  }
  Value result =
      reduce_vector(op.getCombine(), combine_all(b_, loc_, op.getCombine(), llvm::to_vector(ValueRange(loop.getResults()))));
  if (const int64_t rest = size % nest.width)
    result = combine(b_, loc_, op.getCombine(), result, reduce_vector(op.getCombine(), value_at(index(size - rest), rest)));
  place.at[nest.mode] = index(0);
  place.width = 1;
  write(vector::FromElementsOp::create(b_, loc_, VectorType::get({1}, element), result), array, place);
}

/// Along another mode: a vector of results at a time.
void LoopTiles::reduce_rows(ReduceOp op, Place place, int64_t size, ViewOp array) {
  const Type element = working_type(op.getType().getElement());
  const auto type = VectorType::get({place.width}, element);
  const Value none =
      arith::ConstantOp::create(b_, loc_, type, DenseElementsAttr::get(type, Attribute(neutral(op.getCombine(), element))));
  auto loop = scf::ForOp::create(b_, loc_, index(0), index(size), index(1), none);
  {
    OpBuilder::InsertionGuard guard(b_);
    b_.setInsertionPointToStart(loop.getBody());
    place.at[op.getMode()] = loop.getInductionVar();
    const Value value = convert(b_, loc_, evaluate(op.getInput(), place), element);
    scf::YieldOp::create(b_, loc_, combine(b_, loc_, op.getCombine(), loop.getRegionIterArg(0), value));
  }
  place.at[op.getMode()] = index(0);
  write(loop.getResult(0), array, place);
}

void LoopTiles::reduce(ReduceOp op) {
  Facts facts;
  const SmallVector<int64_t> shape = shape_of(op.getInput().getType());
  inspect(op.getInput(), all_modes(shape.size()), facts);
  facts.bits = std::max<int64_t>(facts.bits, working_type(op.getType().getElement()).getIntOrFloatBitWidth());
  const int mode = contiguous_mode(facts, int64_t(shape.size()));
  ViewOp array = new_array(op.getType(), mode);
  const Nest nest = nest_of(shape, facts, mode);
  const int along = int(op.getMode());
  versions(nest, [&](bool masked) {
    loops(
        nest, masked,
        [&](const Place& place) {
          if (nest.mode == along)
            reduce_runs(op, nest, place, array);
          else
            reduce_rows(op, place, shape[along], array);
        },
        along);
  });
  arrays_[op.getResult()] = array;
}

}  // namespace jaxator::flight
