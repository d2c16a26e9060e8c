#include "src/flight/passes/tiles_spread.h"

#include <map>

#include "src/flight/passes/precompiled.h"
#include "src/flight/passes/tiles.h"
#include "src/layout/algebra.h"

namespace jaxator::flight {

using namespace mlir;
using layout::Int;
using layout::IntTuple;
using layout::Layout;

namespace {

/// Each coordinate of the shape as a basis vector of its own.
Layout identity(const IntTuple& shape) {
  Layout result;
  for (int k = 0; k < shape.rank(); k++) {
    Int basis = 1;
    basis.basis = uint32_t(k + 1);
    result.push(Layout(shape.mode(k), IntTuple(basis)));
  }
  return result;
}

IntTuple flat(const IntTuple& shape) { return shape.is_leaf() ? layout::tuple(shape) : shape; }

}  // namespace

Spread::Spread(const IntTuple& tile, const Layout& spread) : shape(sizes_of(tile)), layout(spread) {
  const Layout coordinates = layout::composition(identity(flat(tile)), spread);
  const Layout thread = coordinates.mode(0), value = coordinates.mode(1);
  threads = 1;
  for (int k = 0; k < thread.count; k++) {
    const auto [size, stride] = thread.leaves[k];
    if (size.value > 1)
      digits.push_back({threads, size.value, stride.is(0) ? -1 : layout::basis_mode(stride.basis, 0), stride.value});
    threads *= size.value;
  }
  const int64_t count = layout::size(value).value;
  for (int64_t v = 0; v < count; v++) {
    const IntTuple place = layout::idx2crd(Int(v), value.shape());
    Coordinates at(shape.size(), 0);
    for (int k = 0; k < value.count; k++)
      if (!value.leaves[k].stride.is(0))
        at[layout::basis_mode(value.leaves[k].stride.basis, 0)] += place.leaves[k].value * value.leaves[k].stride.value;
    values.push_back(std::move(at));
  }
}

Spread::Spread(TileType tile)
    : Spread(parse_tile_layout(tile.getShape(), tile.getSpread()).shape, parse_spread(tile.getSpread())) {}

Coordinates Spread::thread_part(int64_t thread) const {
  Coordinates at(shape.size(), 0);
  for (const Digit& digit : digits)
    if (digit.mode >= 0) at[digit.mode] += thread / digit.weight % digit.size * digit.step;
  return at;
}

bool Spread::has_copies() const {
  return llvm::any_of(digits, [](const Digit& digit) { return digit.mode < 0; });
}

Value digit_value(OpBuilder& b, Location loc, Value thread, const Digit& digit) {
  const auto number = [&](int64_t n) -> Value { return arith::ConstantIndexOp::create(b, loc, n); };
  if (digit.weight > 1) thread = arith::DivUIOp::create(b, loc, thread, number(digit.weight));
  return arith::RemUIOp::create(b, loc, thread, number(digit.size));
}

Value Spread::coordinate(OpBuilder& b, Location loc, Value thread, int mode) const {
  Value sum;
  for (const Digit& digit : digits) {
    if (digit.mode != mode) continue;
    Value term = digit_value(b, loc, thread, digit);
    if (digit.step != 1) term = arith::MulIOp::create(b, loc, term, arith::ConstantIndexOp::create(b, loc, digit.step));
    sum = sum ? Value(arith::AddIOp::create(b, loc, sum, term)) : term;
  }
  return sum ? sum : Value(arith::ConstantIndexOp::create(b, loc, 0));
}

Value Spread::first_copy(OpBuilder& b, Location loc, Value thread) const {
  Value all;
  for (const Digit& digit : digits) {
    if (digit.mode >= 0) continue;
    const Value zero = arith::ConstantIndexOp::create(b, loc, 0);
    const Value first = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, digit_value(b, loc, thread, digit), zero);
    all = all ? Value(arith::AndIOp::create(b, loc, all, first)) : first;
  }
  return all;
}

Value Spread::mask(OpBuilder& b, Location loc, Value thread, ValueRange bounds) const {
  const auto type = VectorType::get({count()}, b.getI32Type()), flags = VectorType::get({count()}, b.getI1Type());
  Value all;
  for (auto [mode, bound] : llvm::enumerate(bounds)) {
    if (const auto constant = getConstantIntValue(bound); constant && *constant >= shape[mode]) continue;
    SmallVector<int32_t> places;
    for (const Coordinates& at : values) places.push_back(int32_t(at[mode]));
    const Value there = elements_there(b, loc, bound, coordinate(b, loc, thread, int(mode)), shape[mode]);
    const Value place = arith::ConstantOp::create(b, loc, type, DenseElementsAttr::get(type, ArrayRef<int32_t>(places)));
    const Value limit = vector::BroadcastOp::create(b, loc, type, there);
    const Value inside = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, place, limit);
    all = all ? Value(arith::AndIOp::create(b, loc, flags, all, inside)) : inside;
  }
  return all;
}

std::optional<SmallVector<int64_t>> value_map(const Spread& from, const Spread& to,
                                              function_ref<Coordinates(Coordinates)> project) {
  if (from.threads != to.threads) return std::nullopt;
  for (int64_t thread = 0; thread < to.threads; thread++)
    if (from.thread_part(thread) != project(to.thread_part(thread))) return std::nullopt;
  std::map<std::vector<int64_t>, int64_t> places;
  const auto key = [](const Coordinates& at) { return std::vector<int64_t>(at.begin(), at.end()); };
  for (int64_t v = 0; v < from.count(); v++) places.try_emplace(key(from.values[v]), v);
  SmallVector<int64_t> result;
  for (const Coordinates& at : to.values) {
    const auto found = places.find(key(project(at)));
    if (found == places.end()) return std::nullopt;
    result.push_back(found->second);
  }
  return result;
}

ViewPart::ViewPart(OpBuilder& b, Location loc, ViewOp view)
    : b_(b),
      loc_(loc),
      view_(view),
      view_layout_(parse_view_layout(view.getResult().getType().getLayout())),
      indices_(b, loc, view.getDims()) {}

Value ViewPart::part(const Layout& values, Int start) {
  const ViewType type = view_.getResult().getType();
  const bool swizzled = view_layout_.swizzled();
  const Int offset = swizzled ? math().add(view_layout_.offset, start) : start;
  ViewText made = view_text(view_layout_.swizzle, offset, values);
  Value first = view_.getOffset();
  int64_t align = type.getAlign();
  if (!swizzled && !start.is(0)) {
    const uint64_t bytes = layout::known_divisor(start) * uint64_t(type.getElement().getIntOrFloatBitWidth() / 8);
    align = std::min<int64_t>(align, int64_t(bytes & (0 - bytes)));
    first = arith::AddIOp::create(b_, loc_, first, indices_.value(start), arith::IntegerOverflowFlags::nsw);
  }
  SmallVector<Value> dims;
  for (const Int& leaf : made.dims) dims.push_back(indices_.value(leaf));
  const auto result = ViewType::get(b_.getContext(), type.getElement(), type.getSpace(), made.text, align);
  return ViewOp::create(b_, loc_, result, view_.getPointer(), first, dims);
}

ThreadView::ThreadView(OpBuilder& b, Location loc, ViewOp view, const Layout& spread, Value thread) : ViewPart(b, loc, view) {
  const Layout composed = layout::composition(view_layout().layout, spread, math());
  values_ = composed.mode(1);
  thread_start_ = index_of(IntTuple(handle(thread)), composed.mode(0));
}

}  // namespace jaxator::flight
