#include "src/flight/passes/precompiled.h"
#include "src/flight/passes/tiles.h"

namespace jaxator::flight {

using namespace mlir;

namespace {

Type with_element(Type like, Type element) {
  auto vector = dyn_cast<VectorType>(like);
  return vector ? Type(vector.clone(element)) : element;
}

}  // namespace

Type working_type(Type element) {
  const unsigned bits = element.getIntOrFloatBitWidth();
  if (bits >= 32) return element;
  Builder b(element.getContext());
  return isa<FloatType>(element) ? Type(b.getF32Type()) : Type(b.getI32Type());
}

Value convert(OpBuilder& b, Location loc, Value value, Type element) {
  const Type from = getElementTypeOrSelf(value.getType()), to = with_element(value.getType(), element);
  if (from == element) return value;
  const bool wider = from.getIntOrFloatBitWidth() < element.getIntOrFloatBitWidth();
  if (isa<FloatType>(element)) {
    if (wider) return arith::ExtFOp::create(b, loc, to, value);
    return arith::TruncFOp::create(b, loc, to, value);
  }
  if (wider && from.isInteger(1)) return arith::ExtUIOp::create(b, loc, to, value);
  if (wider) return arith::ExtSIOp::create(b, loc, to, value);
  return arith::TruncIOp::create(b, loc, to, value);
}

Value combine(OpBuilder& b, Location loc, Combine kind, Value x, Value y) {
  const bool floating = isa<FloatType>(getElementTypeOrSelf(x.getType()));
  switch (kind) {
    case Combine::Add:
      return floating ? Value(arith::AddFOp::create(b, loc, x, y)) : Value(arith::AddIOp::create(b, loc, x, y));
    case Combine::Mul:
      return floating ? Value(arith::MulFOp::create(b, loc, x, y)) : Value(arith::MulIOp::create(b, loc, x, y));
    case Combine::Max:
      return floating ? Value(arith::MaximumFOp::create(b, loc, x, y)) : Value(arith::MaxSIOp::create(b, loc, x, y));
    case Combine::Min:
      return floating ? Value(arith::MinimumFOp::create(b, loc, x, y)) : Value(arith::MinSIOp::create(b, loc, x, y));
  }
  llvm_unreachable("all enumerators are above");
}

Value combine_all(OpBuilder& b, Location loc, Combine kind, SmallVector<Value> values) {
  while (values.size() > 1) {
    const size_t pairs = values.size() / 2, odd = values.size() % 2;
    for (size_t i = 0; i < pairs; i++) values[i] = combine(b, loc, kind, values[2 * i], values[2 * i + 1]);
    if (odd) values[pairs] = values.back();
    values.resize(pairs + odd);
  }
  return values[0];
}

TypedAttr neutral(Combine kind, Type element) {
  Builder b(element.getContext());
  const bool least = kind == Combine::Max;
  if (const auto type = dyn_cast<FloatType>(element)) {
    const double extreme = least ? -INFINITY : INFINITY;
    return b.getFloatAttr(type, kind == Combine::Add ? 0.0 : kind == Combine::Mul ? 1.0 : extreme);
  }
  const unsigned bits = element.getIntOrFloatBitWidth();
  if (kind == Combine::Add || kind == Combine::Mul) return b.getIntegerAttr(element, kind == Combine::Mul);
  return b.getIntegerAttr(element, least ? APInt::getSignedMinValue(bits) : APInt::getSignedMaxValue(bits));
}

Value is_full(OpBuilder& b, Location loc, ValueRange bounds, ArrayRef<int64_t> shape) {
  Value all;
  for (auto [bound, size] : llvm::zip(bounds, shape)) {
    if (const auto constant = getConstantIntValue(bound); constant && *constant >= size) continue;
    const Value least = arith::ConstantIndexOp::create(b, loc, size);
    const Value enough = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, bound, least);
    all = all ? Value(arith::AndIOp::create(b, loc, all, enough)) : enough;
  }
  return all;
}

Value elements_there(OpBuilder& b, Location loc, Value bound, Value begin, int64_t size) {
  const Value zero = arith::ConstantIndexOp::create(b, loc, 0), most = arith::ConstantIndexOp::create(b, loc, size);
  const Value rest = arith::SubIOp::create(b, loc, bound, begin);
  const Value there = arith::MinSIOp::create(b, loc, arith::MaxSIOp::create(b, loc, rest, zero), most);
  return arith::IndexCastOp::create(b, loc, b.getI32Type(), there);
}

SmallVector<int64_t> sizes_of(const layout::IntTuple& shape) {
  SmallVector<int64_t> sizes;
  for (int k = 0; k < shape.count; k++) sizes.push_back(shape.leaves[k].value);
  return sizes;
}

layout::IntTuple mode_sizes(const layout::Layout& layout) {
  layout::IntTuple sizes;
  for (int i = 0; i < layout.rank(); i++) sizes.push(layout::size(layout.mode(i)));
  return sizes;
}

ViewText view_text(const layout::Swizzle& swizzle, layout::Int offset, const layout::Layout& layout) {
  ViewText result;
  const auto name = [&](layout::Int& leaf) {
    if (!leaf.is_dynamic()) return;
    result.dims.push_back(leaf);
    leaf.value = 0;  // the text has no handles: equal layouts are equal types
  };
  layout::Layout named = layout;
  if (swizzle.bits != 0) name(offset);
  for (int k = 0; k < named.count; k++) name(named.leaves[k].shape);
  for (int k = 0; k < named.count; k++) name(named.leaves[k].stride);
  result.text = swizzle.bits == 0 ? to_string(named) : to_string(layout::SwizzledLayout{swizzle, offset, named});
  return result;
}

}  // namespace jaxator::flight
