#include "src/flight/passes/access.h"

#include <algorithm>
#include <map>

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"

namespace jaxator::flight {

using namespace mlir;
using layout::Int;
using layout::Math;
using layout::Unknown;

namespace {

int64_t lowest_bit(uint64_t n) { return n == 0 ? int64_t{1} << 40 : int64_t(n & (0 - n)); }

layout::Layout with_strides(layout::Layout layout, bool dynamic) {
  for (int k = 0; k < layout.count; k++)
    if (layout.leaves[k].stride.is_dynamic() != dynamic) layout.leaves[k].stride = 0;
  return layout;
}

}  // namespace

Value IndexBuilder::value(Int leaf) {
  if (leaf.is_dynamic()) return values_[leaf.value - 1];
  return arith::ConstantIndexOp::create(builder_, location_, leaf.value);
}

int64_t IndexBuilder::operator()(layout::Op op, Int a, Int b) {
  // Indices of memory fit in 64 bits with a sign.
  const auto flags = arith::IntegerOverflowFlags::nsw;
  const Value x = value(a), y = value(b);
  OpBuilder& o = builder_;
  const Location l = location_;
  switch (op) {
    case layout::Op::add:
      values_.push_back(arith::AddIOp::create(o, l, x, y, flags));
      break;
    case layout::Op::sub:
      values_.push_back(arith::SubIOp::create(o, l, x, y, flags));
      break;
    case layout::Op::mul:
      values_.push_back(arith::MulIOp::create(o, l, x, y, flags));
      break;
    case layout::Op::div:
      values_.push_back(arith::DivUIOp::create(o, l, x, y));
      break;
    case layout::Op::ceil_div:
      values_.push_back(arith::CeilDivUIOp::create(o, l, x, y));
      break;
    case layout::Op::mod:
      values_.push_back(arith::RemUIOp::create(o, l, x, y));
      break;
    case layout::Op::min:
      values_.push_back(arith::MinSIOp::create(o, l, x, y));
      break;
    case layout::Op::max:
      values_.push_back(arith::MaxSIOp::create(o, l, x, y));
      break;
    case layout::Op::bit_and:
      values_.push_back(arith::AndIOp::create(o, l, x, y));
      break;
    case layout::Op::bit_xor:
      values_.push_back(arith::XOrIOp::create(o, l, x, y));
      break;
  }
  return int64_t(values_.size());
}

Elements::Elements(ViewType view)
    : layout_(parse_view_layout(view.getLayout())),
      static_part_(with_strides(layout_.layout, false)),
      dynamic_part_(with_strides(layout_.layout, true)),
      bytes_(view.getElement().getIntOrFloatBitWidth() / 8),
      align_(view.getAlign()) {
  const int64_t start = layout_.offset.is_static() ? layout_.offset.value : 0;
  std::map<std::vector<int64_t>, int> groups;
  for (int64_t i = 0; i < layout_.static_size(); i++) {
    constants_.push_back(start + static_part_(i));
    const layout::IntTuple digits = layout::idx2crd(Int(i), layout_.layout.shape());
    std::vector<int64_t> key;
    for (int k = 0; k < digits.count; k++)
      if (layout_.layout.leaves[k].stride.is_dynamic()) key.push_back(digits.leaves[k].value);
    const auto [group, fresh] = groups.try_emplace(std::move(key), int(groups.size()));
    groups_.push_back(group->second);
    if (!fresh) continue;
    const layout::IntTuple sum = layout::crd2idx(layout::IntTuple(Int(i)), dynamic_part_, Math<Unknown>{"view"});
    uint64_t multiple = layout::known_divisor(sum.leaves[0]);
    if (layout_.offset.is_dynamic()) multiple = layout::gcd(multiple, layout::known_divisor(layout_.offset));
    group_multiples_.push_back(multiple);
  }
}

uint64_t Elements::known_multiple(int64_t element) const {
  const int64_t constant = constants_[element];
  return layout::gcd(uint64_t(constant < 0 ? -constant : constant), group_multiples_[groups_[element]]);
}

bool Elements::adjacent(int64_t a, int64_t b) const { return groups_[a] == groups_[b] && constants_[a] + 1 == constants_[b]; }

int64_t Elements::kept_together(int64_t element) const {
  if (!layout_.swizzled()) return count();
  return std::min(lowest_bit(known_multiple(element)), int64_t{1} << layout_.swizzle.base);
}

int64_t Elements::alignment(int64_t element) const {
  int64_t elements = lowest_bit(known_multiple(element));
  if (layout_.swizzled()) elements = std::min(elements, int64_t{1} << layout_.swizzle.base);
  return std::min(align_, elements * lowest_bit(uint64_t(bytes_)));
}

SmallVector<int64_t> Elements::in_memory_order() const {
  SmallVector<int64_t> order;
  for (int64_t i = 0; i < count(); i++) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return groups_[a] != groups_[b] ? groups_[a] < groups_[b] : constants_[a] < constants_[b];
  });
  return order;
}

namespace {

/// Math takes its builder by value; what it made must be kept.
struct Shared {
  IndexBuilder* builder;
  int64_t operator()(layout::Op op, Int a, Int b) const { return (*builder)(op, a, b); }
};

}  // namespace

std::pair<Int, int64_t> Elements::index(int64_t element, IndexBuilder& builder) const {
  const Math<Shared> math{"view", {&builder}};
  Int dynamic = layout::crd2idx(layout::IntTuple(Int(element)), dynamic_part_, math).leaves[0];
  if (layout_.offset.is_dynamic()) dynamic = math.add(dynamic, layout_.offset);
  const int64_t constant = constants_[element];
  if (!layout_.swizzled()) return {dynamic, constant};
  // What moves an index by a multiple of the period moves its image by the same.
  if (layout::divides(layout_.swizzle.period(), dynamic)) return {dynamic, layout_.swizzle(constant)};
  return {layout::crd2idx(layout::IntTuple(math.add(dynamic, constant)), layout_.swizzle, math).leaves[0], 0};
}

SmallVector<Piece> split_into_pieces(ArrayRef<const Elements*> sides, int64_t most, bool aligned) {
  const int64_t bytes = sides[0]->bytes();
  const SmallVector<int64_t> order = sides.back()->in_memory_order();
  SmallVector<Piece> pieces;
  for (size_t at = 0; at < order.size();) {
    int64_t limit = std::max<int64_t>(1, most / bytes);
    for (const Elements* side : sides) {
      limit = std::min(limit, side->kept_together(order[at]));
      if (aligned) limit = std::min(limit, std::max<int64_t>(1, side->alignment(order[at]) / bytes));
    }
    size_t end = at + 1;
    const auto continues = [&] {
      return llvm::all_of(sides, [&](const Elements* side) { return side->adjacent(order[end - 1], order[end]); });
    };
    while (end < order.size() && int64_t(end - at) < limit && continues()) end++;
    const int64_t length = int64_t{1} << llvm::Log2_64(end - at);
    pieces.emplace_back(order.begin() + at, order.begin() + at + length);
    at += length;
  }
  return pieces;
}

}  // namespace jaxator::flight
