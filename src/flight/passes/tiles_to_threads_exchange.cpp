/// @file
/// What threads tell each other: reductions and other spreads.
#include "src/flight/passes/tiles.h"
#include "src/flight/passes/tiles_to_threads.h"

namespace jaxator::flight {

using namespace mlir;

namespace {

bool power_of_two(int64_t n) { return (n & (n - 1)) == 0; }

/// The part of a digit that changes lanes of one wave only, for shuffles by powers of two; the rest of it changes waves.
std::pair<Digit, Digit> split_at_wave(const Digit& digit, int wave) {
  Digit inside = digit, outside = digit;
  inside.size =
      power_of_two(digit.weight) && power_of_two(digit.size) ? std::clamp<int64_t>(wave / digit.weight, 1, digit.size) : 1;
  outside.weight *= inside.size;
  outside.size /= inside.size;
  return {inside, outside};
}

}  // namespace

/// Of the thread's values of each row.
Value ThreadTiles::reduce_in_thread(Combine kind, Value input, ArrayRef<SmallVector<int64_t>> rows) {
  SmallVector<Value> parts;
  for (size_t i = 0; i < rows[0].size(); i++) {
    SmallVector<int64_t> places;
    for (const auto& row : rows) places.push_back(row[i]);
    parts.push_back(vector::ShuffleOp::create(b_, loc_, input, input, places));
  }
  return combine_all(b_, loc_, kind, std::move(parts));
}

/// The value of the lane whose number differs by this power of two.
Value ThreadTiles::shuffle_xor(Value scalar, int64_t distance) {
  const Value amount = arith::ConstantIntOp::create(b_, loc_, distance, 32);
  const auto move = [&](Value word) -> Value { return ShuffleOp::create(b_, loc_, LaneMove::Xor, word, amount); };
  const Type type = scalar.getType();
  if (type.isF32() || type.isInteger(32)) return move(scalar);
  // 64 bits go as two words.
  const auto one = VectorType::get({1}, type), two = VectorType::get({2}, b_.getI32Type());
  const Value words = vector::BitCastOp::create(b_, loc_, two, vector::FromElementsOp::create(b_, loc_, one, scalar));
  const SmallVector<Value> moved = {move(vector::ExtractOp::create(b_, loc_, words, 0)),
                                    move(vector::ExtractOp::create(b_, loc_, words, 1))};
  const Value both = vector::BitCastOp::create(b_, loc_, one, vector::FromElementsOp::create(b_, loc_, two, moved));
  return vector::ExtractOp::create(b_, loc_, both, 0);
}

Value ThreadTiles::reduce_in_wave(Combine kind, Value values, const Digit& digit) {
  const auto type = cast<VectorType>(values.getType());
  for (int64_t distance = digit.weight; distance < digit.weight * digit.size; distance *= 2) {
    SmallVector<Value> others;
    for (int64_t row = 0; row < type.getNumElements(); row++)
      others.push_back(shuffle_xor(vector::ExtractOp::create(b_, loc_, values, row), distance));
    values = combine(b_, loc_, kind, values, vector::FromElementsOp::create(b_, loc_, type, others));
  }
  return values;
}

/// Through shared memory: every thread writes what it has, then reads what those that differ in these digits wrote, all in the
/// same order, so that all get the same bits.
Value ThreadTiles::reduce_in_block(Combine kind, Value values, ArrayRef<Digit> digits) {
  const auto type = cast<VectorType>(values.getType());
  const int64_t rows = type.getNumElements();
  const auto block = function_->getAttrOfType<DenseI64ArrayAttr>("flight.block");
  const int64_t threads = block[0] * block[1] * block[2];
  const Value memory = scratch(type.getElementType(), rows * threads);
  const layout::Layout part{layout::IntTuple(rows), layout::IntTuple(threads)};
  StoreOp::create(b_, loc_, values, view(memory, thread(), part), Value());
  BarrierOp::create(b_, loc_);

  Value first = thread();
  SmallVector<int64_t> distances = {0};
  for (const Digit& digit : digits) {
    const Value own = arith::MulIOp::create(b_, loc_, digit_value(b_, loc_, thread(), digit), index(digit.weight));
    first = arith::SubIOp::create(b_, loc_, first, own);
    SmallVector<int64_t> more;
    for (int64_t i = 0; i < digit.size; i++)
      for (const int64_t distance : distances) more.push_back(distance + i * digit.weight);
    distances = std::move(more);
  }
  SmallVector<Value> parts;
  for (const int64_t distance : distances) {
    const Value at = arith::AddIOp::create(b_, loc_, first, index(distance));
    parts.push_back(LoadOp::create(b_, loc_, type, view(memory, at, part), Value(), Value()));
  }
  const Value result = combine_all(b_, loc_, kind, std::move(parts));
  BarrierOp::create(b_, loc_);
  return result;
}

LogicalResult ThreadTiles::reduce(ReduceOp op) {
  const Spread &from = spread_of(op.getInput()), &to = spread(op.getType());
  const int64_t mode = op.getMode();
  const auto row_of = [&](Coordinates at) {
    at[mode] = 0;
    return at;
  };
  bool fits = true;
  for (int64_t thread = 0; thread < from.threads; thread++) fits &= row_of(from.thread_part(thread)) == to.thread_part(thread);
  // Values of the result that are one row are computed once.
  SmallVector<Coordinates> distinct;
  SmallVector<int64_t> row_number;
  for (const Coordinates& row : to.values) {
    const auto known = llvm::find(distinct, row);
    row_number.push_back(known - distinct.begin());
    if (known == distinct.end()) distinct.push_back(row);
  }
  SmallVector<SmallVector<int64_t>> rows;
  for (const Coordinates& row : distinct) {
    SmallVector<int64_t>& members = rows.emplace_back();
    for (int64_t v = 0; v < from.count(); v++) {
      // Copies of one element count once.
      const bool seen = llvm::any_of(members, [&](int64_t other) { return from.values[other] == from.values[v]; });
      if (row_of(from.values[v]) == row && !seen) members.push_back(v);
    }
    fits &= !members.empty() && members.size() == rows[0].size();
  }
  if (!fits)
    return op.emitError() << "every thread gets the rows that it holds a part of: the spread of " << op.getType()
                          << " must be that of " << tiles_.at(op.getInput()) << " without mode " << mode;

  const Type element = op.getType().getElement();
  Value values = reduce_in_thread(op.getCombine(), convert(b_, loc_, op.getInput(), working_type(element)), rows);
  SmallVector<Digit> across;
  for (const Digit& digit : from.digits) {
    if (digit.mode != mode) continue;
    const auto [inside, outside] = split_at_wave(digit, target_.wave);
    values = reduce_in_wave(op.getCombine(), values, inside);
    if (outside.size > 1) across.push_back(outside);
  }
  if (!across.empty()) values = reduce_in_block(op.getCombine(), values, across);
  values = convert(b_, loc_, values, element);
  return replace(op, Value(vector::ShuffleOp::create(b_, loc_, values, values, row_number)));
}

LogicalResult ThreadTiles::respread(RespreadOp op) {
  const Spread &from = spread_of(op.getInput()), &to = spread(op.getType());
  if (const auto places = value_map(from, to, [](Coordinates at) { return at; }))
    return replace(op, Value(vector::ShuffleOp::create(b_, loc_, op.getInput(), op.getInput(), *places)));
  // Bits are stored as bytes: memory has nothing smaller.
  const Type element = op.getType().getElement();
  const Type stored = element.getIntOrFloatBitWidth() < 8 ? Type(b_.getI8Type()) : element;
  const TileLayout tile = parse_tile_layout(op.getType().getShape(), op.getType().getSpread());
  const Value whole = view(scratch(stored, tile.size()), index(0), layout::Layout(layout::IntTuple(tile.size())));
  const auto part = [&](const Spread& spread) {
    return ThreadView(b_, loc_, whole.getDefiningOp<ViewOp>(), spread.layout, thread()).whole();
  };
  if_first_copy(from, [&] { StoreOp::create(b_, loc_, convert(b_, loc_, op.getInput(), stored), part(from), Value()); });
  BarrierOp::create(b_, loc_);
  const Value read = LoadOp::create(b_, loc_, VectorType::get({to.count()}, stored), part(to), Value(), Value());
  BarrierOp::create(b_, loc_);
  return replace(op, convert(b_, loc_, read, element));
}

}  // namespace jaxator::flight
