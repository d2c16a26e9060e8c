#include "src/flight/passes/interpreter.h"

namespace jaxator::flight {

using namespace mlir;

namespace {

// A size that a kernel may be asked for: a multiple of all tiles, small enough that loops over it are short.
constexpr int64_t kUsualSize = 1024;

int64_t elements_of(Type type) {
  const auto vector = dyn_cast<VectorType>(type);
  return vector ? vector.getNumElements() : 1;
}

}  // namespace

Interpreter::Interpreter(func::FuncOp function) : function_(function) {
  const auto block = function->getAttrOfType<DenseI64ArrayAttr>("flight.block");
  std::copy(block.asArrayRef().begin(), block.asArrayRef().end(), extents_);
  threads_ = extents_[0] * extents_[1] * extents_[2];
}

std::optional<Conflict> Interpreter::run() {
  function_.walk([&](SharedOp shared) { shadow_.add(shared, shared.getCount()); });
  const auto ranges = function_->getAttrOfType<ArrayAttr>("flight.ranges");
  for (const BlockArgument argument : function_.getArguments()) {
    if (!argument.getType().isInteger() && !argument.getType().isIndex()) continue;
    int64_t number = argument.getType().isInteger(1) ? 1 : kUsualSize;
    if (ranges)
      if (const auto range = dyn_cast<DenseI64ArrayAttr>(ranges[argument.getArgNumber()]))
        number = std::clamp(number, range[0], range[1]);
    set(argument, constant(number));
  }
  block(function_.getBody().front(), Mask(size_t(threads_), 1));
  return shadow_.conflict();
}

bool Interpreter::all(const Mask& mask) const {
  return llvm::all_of(mask, [](char there) { return there != 0; });
}
bool Interpreter::none(const Mask& mask) const {
  return llvm::none_of(mask, [](char there) { return there != 0; });
}

const Interpreter::Numbers& Interpreter::get(Value value) {
  const auto found = values_.find(value);
  if (found != values_.end()) return found->second;
  static const Numbers unknown;
  return unknown;
}

std::vector<Interpreter::Numbers> Interpreter::gather(ValueRange values) {
  std::vector<Numbers> numbers;
  for (const Value value : values) numbers.push_back(get(value));
  return numbers;
}

/// For the threads of the mask; the others keep what they have.
void Interpreter::assign(ValueRange to, const std::vector<Numbers>& from, const Mask& mask) {
  const bool whole = all(mask);
  for (auto [value, numbers] : llvm::zip(to, from)) {
    const Numbers old = get(value);
    if (whole || !numbers.known() || !old.known()) {
      set(value, whole ? numbers : Numbers());
      continue;
    }
    Numbers mixed{std::vector<int64_t>(size_t(threads_ * numbers.elements)), false, numbers.elements};
    for (int64_t i = 0; i < threads_ * numbers.elements; i++) {
      const int64_t thread = i / numbers.elements, element = i % numbers.elements;
      mixed.at[size_t(i)] = mask[size_t(thread)] ? numbers.get(thread, element) : old.get(thread, element);
    }
    set(value, std::move(mixed));
  }
}

void Interpreter::block(Block& body, const Mask& mask) {
  for (Operation& op : body.without_terminator()) {
    if (spent()) return;
    step(op, mask);
  }
}

void Interpreter::step(Operation& op, const Mask& mask) {
  if (auto loop = dyn_cast<scf::ForOp>(op)) return control(loop, mask);
  if (auto loop = dyn_cast<scf::WhileOp>(op)) return control(loop, mask);
  if (auto branch = dyn_cast<scf::IfOp>(op)) return control(branch, mask);
  if (memory(op, mask)) return;
  if (op.getNumRegions() == 0) arithmetic(op);
}

void Interpreter::control(scf::ForOp op, const Mask& mask) {
  const Numbers low = get(op.getLowerBound()), high = get(op.getUpperBound()), by = get(op.getStep());
  assign(op.getRegionIterArgs(), gather(op.getInitArgs()), Mask(mask.size(), 1));
  const bool known = low.known() && high.known() && by.known();
  Mask active = mask;
  // Bounds that are not known: an iteration and what follows it.
  for (int64_t k = 0; known || k < 2; k++) {
    Numbers index;
    if (low.known() && by.known()) {
      index.uniform = low.uniform && by.uniform;
      for (int64_t thread = 0; thread < (index.uniform ? 1 : threads_); thread++)
        index.at.push_back(low.get(thread) + k * by.get(thread));
    }
    for (int64_t thread = 0; known && thread < threads_; thread++)
      active[size_t(thread)] &= char(low.get(thread) + k * by.get(thread) < high.get(thread));
    if (none(active)) break;
    set(op.getInductionVar(), index);
    block(*op.getBody(), active);
    if (spent()) return;
    assign(op.getRegionIterArgs(), gather(op.getBody()->getTerminator()->getOperands()), active);
  }
  for (auto [result, argument] : llvm::zip(op.getResults(), op.getRegionIterArgs()))
    set(result, known ? get(argument) : Numbers());
}

void Interpreter::control(scf::WhileOp op, const Mask& mask) {
  assign(op.getBeforeArguments(), gather(op.getInits()), Mask(mask.size(), 1));
  Mask active = mask;
  auto condition = op.getConditionOp();
  bool known = true;
  for (int64_t k = 0; known || k < 2; k++) {
    block(*op.getBeforeBody(), active);
    if (spent()) return;
    const Numbers go_on = get(condition.getCondition());
    known &= go_on.known();
    assign(op.getAfterArguments(), gather(condition.getArgs()), active);
    for (int64_t thread = 0; go_on.known() && thread < threads_; thread++) active[size_t(thread)] &= char(go_on.get(thread) != 0);
    if (none(active)) break;
    block(*op.getAfterBody(), active);
    if (spent()) return;
    assign(op.getBeforeArguments(), gather(op.getYieldOp()->getOperands()), active);
  }
  for (auto [result, argument] : llvm::zip(op.getResults(), op.getAfterArguments()))
    set(result, known ? get(argument) : Numbers());
}

void Interpreter::control(scf::IfOp op, const Mask& mask) {
  const Numbers condition = get(op.getCondition());
  if (!condition.known()) {
    // One of them runs: what it does is seen, but nothing is concluded from both together.
    const Shadow before = shadow_;
    work_ += shadow_.elements();
    block(op.getThenRegion().front(), mask);
    if (spent()) return;
    if (!op.getElseRegion().empty()) {
      Shadow then = std::move(shadow_);
      shadow_ = before;
      block(op.getElseRegion().front(), mask);
      if (spent()) return;
      shadow_ = std::move(then);
    }
    for (const Value result : op.getResults()) set(result, {});
    return;
  }
  Mask then = mask, other = mask;
  for (int64_t thread = 0; thread < threads_; thread++) {
    then[size_t(thread)] &= char(condition.get(thread) != 0);
    other[size_t(thread)] &= char(condition.get(thread) == 0);
  }
  const auto side = [&](Region& region, const Mask& active) {
    if (region.empty() || none(active) || spent()) return;
    block(region.front(), active);
    assign(op.getResults(), gather(region.front().getTerminator()->getOperands()), active);
  };
  // The threads that take one side are filled in by it.
  for (const Value result : op.getResults()) {
    const int64_t elements = elements_of(result.getType());
    set(result, Numbers{std::vector<int64_t>(size_t(elements)), true, elements});
  }
  side(op.getThenRegion(), then);
  side(op.getElseRegion(), other);
}

Interpreter::Numbers Interpreter::combine(const Numbers& a, const Numbers& b, int64_t elements,
                                          function_ref<int64_t(int64_t, int64_t)> number) {
  if (!a.known() || !b.known()) return {};
  Numbers result{{}, a.uniform && b.uniform, elements};
  const int64_t threads = result.uniform ? 1 : threads_;
  result.at.reserve(size_t(threads * elements));
  for (int64_t thread = 0; thread < threads; thread++)
    for (int64_t element = 0; element < elements; element++)
      result.at.push_back(number(a.get(thread, element), b.get(thread, element)));
  work_ += threads * elements;
  return result;
}

}  // namespace jaxator::flight
