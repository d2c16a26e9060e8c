/// @file
/// What single ops do: index arithmetic, and accesses of shared memory.
#include "src/flight/passes/interpreter.h"

namespace jaxator::flight {

using namespace mlir;

namespace {

enum Kind { kRead, kWrite, kCopy };

bool compare(arith::CmpIPredicate predicate, int64_t a, int64_t b) {
  const auto x = uint64_t(a), y = uint64_t(b);
  switch (predicate) {
    case arith::CmpIPredicate::eq:
      return a == b;
    case arith::CmpIPredicate::ne:
      return a != b;
    case arith::CmpIPredicate::slt:
      return a < b;
    case arith::CmpIPredicate::sle:
      return a <= b;
    case arith::CmpIPredicate::sgt:
      return a > b;
    case arith::CmpIPredicate::sge:
      return a >= b;
    case arith::CmpIPredicate::ult:
      return x < y;
    case arith::CmpIPredicate::ule:
      return x <= y;
    case arith::CmpIPredicate::ugt:
      return x > y;
    case arith::CmpIPredicate::uge:
      return x >= y;
  }
  return false;
}

/// With the sign that the type gives it.
int64_t wrap(int64_t number, Type type) {
  const Type element = getElementTypeOrSelf(type);
  const unsigned bits = element.isIndex() ? 64 : element.getIntOrFloatBitWidth();
  if (bits == 1) return number & 1;
  return bits >= 64 ? number : llvm::SignExtend64(uint64_t(number), bits);
}

int64_t unsigned_of(int64_t number, Type type) {
  const Type element = getElementTypeOrSelf(type);
  const unsigned bits = element.isIndex() ? 64 : element.getIntOrFloatBitWidth();
  return bits >= 64 ? number : number & ((int64_t{1} << bits) - 1);
}

/// nullopt: not an op of two numbers, or one without a result for these.
std::optional<int64_t> evaluate(Operation& op, int64_t a, int64_t b) {
  const Type type = op.getOperand(0).getType();
  const auto x = uint64_t(unsigned_of(a, type)), y = uint64_t(unsigned_of(b, type));
  if (isa<arith::AddIOp>(op)) return int64_t(x + y);
  if (isa<arith::SubIOp>(op)) return int64_t(x - y);
  if (isa<arith::MulIOp>(op)) return int64_t(x * y);
  if (isa<arith::AndIOp>(op)) return a & b;
  if (isa<arith::OrIOp>(op)) return a | b;
  if (isa<arith::XOrIOp>(op)) return a ^ b;
  if (isa<arith::MinSIOp>(op)) return std::min(a, b);
  if (isa<arith::MaxSIOp>(op)) return std::max(a, b);
  if (isa<arith::MinUIOp>(op)) return int64_t(std::min(x, y));
  if (isa<arith::MaxUIOp>(op)) return int64_t(std::max(x, y));
  if (auto compared = dyn_cast<arith::CmpIOp>(op)) return compare(compared.getPredicate(), a, b);
  if (isa<arith::ShLIOp>(op)) return y < 64 ? int64_t(x << y) : 0;
  if (isa<arith::ShRUIOp>(op)) return y < 64 ? int64_t(x >> y) : 0;
  if (isa<arith::ShRSIOp>(op)) return y < 64 ? a >> y : a >> 63;
  if (b == 0 || (a == INT64_MIN && b == -1)) return std::nullopt;
  if (isa<arith::DivUIOp>(op)) return int64_t(x / y);
  if (isa<arith::RemUIOp>(op)) return int64_t(x % y);
  if (isa<arith::CeilDivUIOp>(op)) return int64_t((x + y - 1) / y);
  if (isa<arith::DivSIOp>(op)) return a / b;
  if (isa<arith::RemSIOp>(op)) return a % b;
  if (isa<arith::CeilDivSIOp>(op)) return a / b + ((a % b != 0) && ((a < 0) == (b < 0)));
  if (isa<arith::FloorDivSIOp>(op)) return a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
  return std::nullopt;
}

bool whole_numbers(Type type) {
  const Type element = getElementTypeOrSelf(type);
  return element.isIndex() || element.isSignlessInteger();
}

}  // namespace

void Interpreter::arithmetic(Operation& op) {
  work_++;
  if (op.getNumResults() != 1) return;
  const Value result = op.getResult(0);
  if (!whole_numbers(result.getType())) return;
  const auto vector = dyn_cast<VectorType>(result.getType());
  const int64_t elements = vector ? vector.getNumElements() : 1;
  if (auto thread = dyn_cast<ThreadIdOp>(op)) {
    Numbers numbers{{}, false, 1};
    const int axis = int(thread.getAxis());
    for (int64_t t = 0; t < threads_; t++)
      numbers.at.push_back((axis == 0 ? t : axis == 1 ? t / extents_[0] : t / (extents_[0] * extents_[1])) % extents_[axis]);
    return set(result, std::move(numbers));
  }
  if (isa<BlockIdOp>(op)) return set(result, constant(0));
  if (isa<GridDimOp>(op)) return set(result, constant(1));
  DenseIntElementsAttr dense;
  llvm::APInt number;
  if (matchPattern(result, m_Constant(&dense)) && vector) {
    Numbers numbers{{}, true, elements};
    for (const llvm::APInt& each : dense.getValues<llvm::APInt>())
      numbers.at.push_back(wrap(each.getSExtValue(), result.getType()));
    return set(result, std::move(numbers));
  }
  if (matchPattern(result, m_ConstantInt(&number))) return set(result, constant(wrap(number.getSExtValue(), result.getType())));
  if (isa<arith::IndexCastOp, arith::ExtSIOp, arith::TruncIOp, vector::BroadcastOp>(op)) {
    const Numbers& from = get(op.getOperand(0));
    return set(result, combine(from, from, elements, [&](int64_t a, int64_t) { return wrap(a, result.getType()); }));
  }
  if (isa<arith::IndexCastUIOp, arith::ExtUIOp>(op)) {
    const Numbers& from = get(op.getOperand(0));
    const Type type = op.getOperand(0).getType();
    return set(result, combine(from, from, elements, [&](int64_t a, int64_t) { return unsigned_of(a, type); }));
  }
  if (auto select = dyn_cast<arith::SelectOp>(op)) {
    const Numbers &a = get(select.getTrueValue()), &b = get(select.getFalseValue()), &condition = get(select.getCondition());
    if (!condition.known() || !a.known() || !b.known()) return set(result, {});
    Numbers numbers{{}, condition.uniform && a.uniform && b.uniform, elements};
    for (int64_t t = 0; t < (numbers.uniform ? 1 : threads_); t++)
      for (int64_t i = 0; i < elements; i++) numbers.at.push_back(condition.get(t, i) ? a.get(t, i) : b.get(t, i));
    return set(result, std::move(numbers));
  }
  if (op.getNumOperands() != 2 || !whole_numbers(op.getOperand(0).getType()) || !evaluate(op, 1, 1)) return set(result, {});
  bool defined = true;
  Numbers numbers = combine(get(op.getOperand(0)), get(op.getOperand(1)), elements, [&](int64_t a, int64_t b) {
    const std::optional<int64_t> number = evaluate(op, a, b);
    defined &= number.has_value();
    return wrap(number.value_or(0), result.getType());
  });
  set(result, defined ? std::move(numbers) : Numbers());
}

/// Where each element of a view without dynamic leaves is.
const std::vector<int64_t>& Interpreter::static_places(StringRef text) {
  const auto [found, fresh] = tables_.try_emplace(text.str());
  if (fresh) {
    const ViewLayout view = parse_view_layout(text);
    for (int64_t i = 0; i < view.static_size(); i++) found->second.push_back(view.swizzle(view.offset.value + view.layout(i)));
  }
  return found->second;
}

/// Which element of the tile each value of each thread is; values of one thread are together.
const std::vector<int64_t>& Interpreter::elements_of_threads(const layout::Layout& spread) {
  const auto [found, fresh] = tables_.try_emplace("spread " + to_string(spread));
  const int64_t values = layout::size(spread.mode(1)).value;
  for (int64_t i = 0; fresh && i < threads_ * values; i++) found->second.push_back(spread(i / values, i % values));
  return found->second;
}

Interpreter::Place Interpreter::place_of(Value view) {
  Place place;
  auto made = view.getDefiningOp<ViewOp>();
  if (!made || made.getResult().getType().getSpace() != Space::Shared || !made.getPointer().getDefiningOp<SharedOp>())
    return place;
  place.offset = get(made.getOffset());
  if (made.getDims().empty()) {
    if (!place.offset.known()) return place;
    place.elements = static_places(made.getResult().getType().getLayout());
    place.count = int64_t(place.elements.size());
    place.array = made.getPointer().getDefiningOp();
    return place;
  }
  const ViewLayout layout = parse_view_layout(made.getResult().getType().getLayout());
  place.count = layout.static_size();
  if (place.count == 0 || !place.offset.known()) return place;
  std::vector<Numbers> dims = gather(made.getDims());
  for (const Numbers& dim : dims) {
    if (!dim.known()) return place;
    place.uniform &= dim.uniform;
  }
  for (int64_t thread = 0; thread < (place.uniform ? 1 : threads_); thread++) {
    ViewLayout there = layout;
    const auto fill = [&](layout::Int& leaf) {
      if (leaf.is_dynamic()) leaf = dims[size_t(leaf.value - 1)].get(thread);
    };
    fill(there.offset);
    for (int k = 0; k < there.layout.count; k++) fill(there.layout.leaves[k].stride);
    for (int64_t i = 0; i < place.count; i++) place.elements.push_back(there.swizzle(there.offset.value + there.layout(i)));
  }
  work_ += int64_t(place.elements.size());
  place.array = made.getPointer().getDefiningOp();
  return place;
}

/// An element as thread `thread` sees it.
void Interpreter::touch(Operation& op, const Place& place, int64_t thread, int64_t element, int by, int kind) {
  const int64_t at = place.at(thread, element);
  if (kind == kCopy)
    shadow_.start_copy(place.array, at, &op, by);
  else
    shadow_.access(place.array, at, &op, by, kind == kWrite);
}

void Interpreter::thread_access(Operation& op, Value view, Value mask_value, const Mask& mask, int kind) {
  const Place place = place_of(view);
  if (place.array == nullptr) return;
  // A copy writes zeros where its mask is false.
  const Numbers* picked = mask_value && kind != kCopy ? &get(mask_value) : nullptr;
  if (picked != nullptr && !picked->known()) return;
  if (visit_)
    visit_({&op, cast<ViewType>(view.getType()), kind != kRead, threads_,
            [&](int64_t thread, int64_t element) { return mask[size_t(thread)] ? place.at(thread, element) : -1; }});
  for (int64_t thread = 0; thread < threads_ && !spent(); thread++) {
    if (!mask[size_t(thread)]) continue;
    for (int64_t i = 0; i < place.count; i++)
      if (picked == nullptr || picked->get(thread, i) != 0) touch(op, place, thread, i, int(thread), kind);
  }
}

/// Of the whole block. Without a spread any thread may be the one.
void Interpreter::tile_access(Operation& op, Value view, const layout::Layout* spread, const Mask& mask, int kind) {
  const Place place = place_of(view);
  if (place.array == nullptr || !place.offset.uniform || !place.uniform || !all(mask)) return;
  if (spread == nullptr) {
    for (int64_t i = 0; i < place.count && !spent(); i++) touch(op, place, 0, i, Shadow::kSeveral, kind);
    return;
  }
  // Threads may hold copies of an element, all with the same value: the first of them stands for all that write it.
  const std::vector<int64_t>& elements = elements_of_threads(*spread);
  const int64_t values = int64_t(elements.size()) / threads_;
  std::vector<char> written(size_t(kind == kRead ? 0 : place.count));
  for (int64_t thread = 0; thread < threads_ && !spent(); thread++) {
    for (int64_t value = 0; value < values; value++) {
      const int64_t element = elements[size_t(thread * values + value)];
      if (kind != kRead && written[size_t(element)]++ != 0) continue;
      touch(op, place, 0, element, int(thread), kind);
    }
  }
}

bool Interpreter::memory(Operation& op, const Mask& mask) {
  if (isa<BarrierOp>(op)) return shadow_.barrier(), true;
  if (isa<CommitOp>(op)) return shadow_.commit(), true;
  if (auto wait = dyn_cast<WaitOp>(op)) return shadow_.wait(wait.getPending()), true;
  if (auto load = dyn_cast<LoadOp>(op)) return thread_access(op, load.getSource(), load.getMask(), mask, kRead), true;
  if (auto store = dyn_cast<StoreOp>(op)) return thread_access(op, store.getDestination(), store.getMask(), mask, kWrite), true;
  if (auto copy = dyn_cast<CopyAsyncOp>(op)) return thread_access(op, copy.getDestination(), copy.getMask(), mask, kCopy), true;
  if (auto load = dyn_cast<TileLoadOp>(op)) {
    const layout::Layout spread = parse_spread(load.getResult().getType().getSpread());
    return tile_access(op, load.getSource(), &spread, mask, kRead), true;
  }
  if (auto store = dyn_cast<TileStoreOp>(op)) {
    const layout::Layout spread = parse_spread(store.getValue().getType().getSpread());
    return tile_access(op, store.getDestination(), &spread, mask, kWrite), true;
  }
  if (auto copy = dyn_cast<TileCopyOp>(op)) {
    const layout::Layout spread = parse_spread(copy.getSpread());
    return tile_access(op, copy.getDestination(), &spread, mask, copy.getAsync() ? kCopy : kWrite), true;
  }
  if (auto mma = dyn_cast<TileMmaOp>(op)) {
    for (const Value operand : {mma.getA(), mma.getB()})
      if (isa<ViewType>(operand.getType())) tile_access(op, operand, nullptr, mask, kRead);
    return true;
  }
  return false;
}

}  // namespace jaxator::flight
