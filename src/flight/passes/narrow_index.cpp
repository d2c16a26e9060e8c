/// @file
/// Byte offsets of addresses in 32 bits where they are proved to fit: registers of 64 bits cost two, and AMD GPUs add a 32-bit
/// offset to a scalar base for nothing.
///
/// An offset in [0, 2^32) may be computed modulo 2^32, whatever the sizes of its parts: only divisions, shifts to the right and
/// comparisons need parts that fit themselves. What is known: the ranges of arguments, the extents of the block, the bounds of
/// loops, and the conditions under which the address is used.
#include "mlir/IR/Dominance.h"
#include "src/flight/passes/passes.h"
#include "src/flight/passes/precompiled.h"

namespace jaxator::flight {

using namespace mlir;

namespace {

/// Numbers from least to greatest, both included, far enough from the ends of 64 bits for sums.
struct Range {
  static constexpr int64_t kEnd = int64_t{1} << 62;
  int64_t least = -kEnd, greatest = kEnd;

  bool within(int64_t low, int64_t high) const { return least >= low && greatest <= high; }
};

int64_t clamp(__int128 number) { return int64_t(std::clamp<__int128>(number, -Range::kEnd, Range::kEnd)); }

Range sum(Range a, Range b) { return {clamp(__int128(a.least) + b.least), clamp(__int128(a.greatest) + b.greatest)}; }
Range difference(Range a, Range b) { return {clamp(__int128(a.least) - b.greatest), clamp(__int128(a.greatest) - b.least)}; }
Range product(Range a, Range b) {
  const __int128 corners[] = {__int128(a.least) * b.least, __int128(a.least) * b.greatest, __int128(a.greatest) * b.least,
                              __int128(a.greatest) * b.greatest};
  return {clamp(*std::min_element(corners, corners + 4)), clamp(*std::max_element(corners, corners + 4))};
}

bool may_wrap(Type type) { return !type.isIndex() && type.getIntOrFloatBitWidth() < 64; }

/// The ranges of values at one place in the code.
class Ranges {
 public:
  explicit Ranges(Operation* place) {
    for (Operation *inner = place, *outer = place->getParentOp(); outer != nullptr; inner = outer, outer = outer->getParentOp()) {
      auto branch = dyn_cast<scf::IfOp>(outer);
      if (branch && inner->getParentRegion() == &branch.getThenRegion()) assume(branch.getCondition());
    }
  }

  Range of(Value value) {
    const auto [found, fresh] = ranges_.try_emplace(value, Range());
    if (!fresh) return found->second;
    Range range = computed(value);
    for (const auto& [bounded, limit] : assumptions_)
      if (bounded == value) range = {std::max(range.least, limit.least), std::min(range.greatest, limit.greatest)};
    return ranges_[value] = range;
  }

 private:
  void assume(Value condition);
  Range computed(Value value);
  Range of_argument(BlockArgument argument);
  Range of_op(Operation* op);

  DenseMap<Value, Range> ranges_;
  SmallVector<std::pair<Value, Range>> assumptions_;
};

/// The condition is true: a < b, and so on. Bounds are taken without the assumptions themselves.
void Ranges::assume(Value condition) {
  if (auto both = condition.getDefiningOp<arith::AndIOp>()) {
    assume(both.getLhs());
    assume(both.getRhs());
    return;
  }
  auto compared = condition.getDefiningOp<arith::CmpIOp>();
  if (!compared) return;
  const Value a = compared.getLhs(), b = compared.getRhs();
  const Range x = computed(a), y = computed(b);
  using Predicate = arith::CmpIPredicate;
  switch (compared.getPredicate()) {
    case Predicate::slt:
      assumptions_.push_back({a, {-Range::kEnd, y.greatest - 1}});
      assumptions_.push_back({b, {x.least + 1, Range::kEnd}});
      break;
    case Predicate::sle:
      assumptions_.push_back({a, {-Range::kEnd, y.greatest}});
      break;
    case Predicate::sgt:
      assumptions_.push_back({b, {-Range::kEnd, x.greatest - 1}});
      break;
    case Predicate::sge:
      assumptions_.push_back({b, {-Range::kEnd, x.greatest}});
      break;
    case Predicate::ult:
      if (y.least >= 0) assumptions_.push_back({a, {0, y.greatest - 1}});
      break;
    case Predicate::eq:
      assumptions_.push_back({a, y});
      break;
    default:
      break;
  }
}

Range Ranges::computed(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) return of_argument(argument);
  llvm::APInt number;
  if (matchPattern(value, m_ConstantInt(&number))) return {number.getSExtValue(), number.getSExtValue()};
  return of_op(value.getDefiningOp());
}

Range Ranges::of_argument(BlockArgument argument) {
  Operation* parent = argument.getOwner()->getParentOp();
  if (auto function = dyn_cast<FunctionOpInterface>(parent)) {
    const auto ranges = parent->getAttrOfType<ArrayAttr>("flight.ranges");
    const auto range = ranges ? dyn_cast<DenseI64ArrayAttr>(ranges[argument.getArgNumber()]) : DenseI64ArrayAttr();
    if (range) return {range[0], range[1]};
    const Type type = argument.getType();
    if (type.isInteger(32)) return {INT32_MIN, INT32_MAX};
    return {};
  }
  auto loop = dyn_cast<scf::ForOp>(parent);
  if (!loop || argument != loop.getInductionVar()) return {};
  return {of(loop.getLowerBound()).least, of(loop.getUpperBound()).greatest - 1};
}

Range Ranges::of_op(Operation* op) {
  if (auto thread = dyn_cast<ThreadIdOp>(op)) {
    const auto block = op->getParentOfType<func::FuncOp>()->getAttrOfType<DenseI64ArrayAttr>("flight.block");
    return {0, block[int(thread.getAxis())] - 1};
  }
  if (isa<BlockIdOp>(op)) return {0, INT32_MAX};
  if (isa<GridDimOp>(op)) return {1, INT32_MAX};
  if (isa<arith::IndexCastOp, arith::ExtSIOp>(op)) {
    const Range from = of(op->getOperand(0));
    const Type type = op->getResult(0).getType();
    return may_wrap(type) && !from.within(INT32_MIN, INT32_MAX) ? Range() : from;
  }
  if (isa<arith::IndexCastUIOp, arith::ExtUIOp>(op)) {
    const Range from = of(op->getOperand(0));
    return from.least >= 0 ? from : Range{0, Range::kEnd};
  }
  if (auto select = dyn_cast<arith::SelectOp>(op)) {
    const Range a = of(select.getTrueValue()), b = of(select.getFalseValue());
    return {std::min(a.least, b.least), std::max(a.greatest, b.greatest)};
  }
  if (op->getNumOperands() != 2 || !op->getResult(0).getType().isIntOrIndex()) return {};
  const Range a = of(op->getOperand(0)), b = of(op->getOperand(1));
  Range range;
  const bool positive = a.least >= 0 && b.least > 0;
  if (isa<arith::AddIOp>(op)) range = sum(a, b);
  if (isa<arith::SubIOp>(op)) range = difference(a, b);
  if (isa<arith::MulIOp>(op)) range = product(a, b);
  if (isa<arith::MinSIOp>(op)) range = {std::min(a.least, b.least), std::min(a.greatest, b.greatest)};
  if (isa<arith::MaxSIOp>(op)) range = {std::max(a.least, b.least), std::max(a.greatest, b.greatest)};
  if (isa<arith::AndIOp>(op) && (a.least >= 0 || b.least >= 0))
    range = {0, std::min(a.least >= 0 ? a.greatest : Range::kEnd, b.least >= 0 ? b.greatest : Range::kEnd)};
  if (isa<arith::XOrIOp, arith::OrIOp>(op) && a.least >= 0 && b.least >= 0)
    range = {0, int64_t(llvm::NextPowerOf2(uint64_t(std::max(a.greatest, b.greatest)))) - 1};
  if (positive && isa<arith::DivUIOp, arith::DivSIOp, arith::FloorDivSIOp>(op))
    range = {a.least / b.greatest, a.greatest / b.least};
  if (positive && isa<arith::CeilDivUIOp, arith::CeilDivSIOp>(op)) range = {0, a.greatest / b.least + 1};
  if (positive && isa<arith::RemUIOp, arith::RemSIOp>(op)) range = {0, std::min(a.greatest, b.greatest - 1)};
  if (isa<arith::ShRUIOp, arith::ShRSIOp>(op) && a.least >= 0 && b.within(0, 62))
    range = {a.least >> b.greatest, a.greatest >> b.least};
  if (isa<arith::ShLIOp>(op) && b.within(0, 61)) range = product(a, {int64_t{1} << b.least, int64_t{1} << b.greatest});
  return may_wrap(op->getResult(0).getType()) && !range.within(INT32_MIN, INT32_MAX) ? Range() : range;
}

/// Computes values modulo 2^32.
class Narrower {
 public:
  Narrower(Operation* place) : b_(place), loc_(place->getLoc()), ranges_(place) {}

  Range range(Value value) { return ranges_.of(value); }
  Value narrow(Value value);

 private:
  Value binary(Operation* op);
  bool fits(Value value) { return ranges_.of(value).within(0, INT32_MAX); }

  OpBuilder b_;
  Location loc_;
  Ranges ranges_;
  DenseMap<Value, Value> narrow_;
};

Value Narrower::narrow(Value value) {
  Value& made = narrow_[value];
  if (made) return made;
  const Type i32 = b_.getI32Type();
  if (value.getType() == i32) return made = value;
  llvm::APInt number;
  Value result;
  if (matchPattern(value, m_ConstantInt(&number)))
    result = arith::ConstantIntOp::create(b_, loc_, int64_t(int32_t(number.getSExtValue())), 32);
  else if (Operation* op = value.getDefiningOp())
    result = isa<arith::IndexCastOp, arith::IndexCastUIOp, arith::ExtSIOp, arith::ExtUIOp>(op) &&
                     (op->getOperand(0).getType().isIndex() || op->getOperand(0).getType().getIntOrFloatBitWidth() >= 32)
                 ? narrow(op->getOperand(0))
                 : binary(op);
  if (!result)
    result = value.getType().isIndex() ? Value(arith::IndexCastOp::create(b_, loc_, i32, value))
                                       : Value(arith::TruncIOp::create(b_, loc_, i32, value));
  return narrow_[value] = result;
}

/// nullptr: cannot be computed in 32 bits.
Value Narrower::binary(Operation* op) {
  if (op->getNumOperands() != 2 || !op->getOperand(0).getType().isIntOrIndex()) return nullptr;
  const bool ring = isa<arith::AddIOp, arith::SubIOp, arith::MulIOp, arith::AndIOp, arith::OrIOp, arith::XOrIOp>(op);
  const bool ordered =
      isa<arith::DivUIOp, arith::RemUIOp, arith::DivSIOp, arith::RemSIOp, arith::ShRUIOp, arith::MinSIOp, arith::MaxSIOp>(op);
  const bool shift = isa<arith::ShLIOp>(op) && ranges_.of(op->getOperand(1)).within(0, 31);
  if (!ring && !shift && !(ordered && fits(op->getOperand(0)) && fits(op->getOperand(1)))) return nullptr;
  const Value operands[] = {narrow(op->getOperand(0)), narrow(op->getOperand(1))};
  OperationState state(loc_, op->getName(), operands, b_.getI32Type());
  return b_.create(state)->getResult(0);
}

class NarrowIndex : public PassWrapper<NarrowIndex, OperationPass<ModuleOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(NarrowIndex)
  StringRef getArgument() const override { return "flight-narrow-index"; }
  StringRef getDescription() const override { return "addresses in 32 bits where they are proved to fit"; }
  void runOnOperation() override {
    SmallVector<LLVM::GEPOp> addresses;
    getOperation().walk([&](LLVM::GEPOp address) {
      if (address.getDynamicIndices().size() == 1 && address.getElemType().isInteger(8)) addresses.push_back(address);
    });
    for (LLVM::GEPOp address : addresses) {
      const Value offset = address.getDynamicIndices()[0];
      if (offset.getType().isInteger(32) || offset.getDefiningOp<arith::ExtUIOp>()) continue;
      Narrower narrower(address);
      if (!narrower.range(offset).within(0, UINT32_MAX)) continue;
      OpBuilder b(address);
      const Value narrow = narrower.narrow(offset);
      address.getDynamicIndicesMutable().assign(arith::ExtUIOp::create(b, address.getLoc(), b.getI64Type(), narrow));
    }
  }
};

}  // namespace

std::unique_ptr<Pass> create_narrow_index() { return std::make_unique<NarrowIndex>(); }

}  // namespace jaxator::flight
