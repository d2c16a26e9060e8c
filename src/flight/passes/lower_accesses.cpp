#include "src/flight/passes/lower_accesses.h"

#include <numeric>

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

namespace jaxator::flight {

using namespace mlir;

/// LLVM has no number formats of 8 bits, and moves bf16 through f32 on an x86 that does not know it.
Type stored_type(Type element) {
  const unsigned bits = element.getIntOrFloatBitWidth();
  const bool as_integer = isa<FloatType>(element) && (bits == 8 || element.isBF16());
  return as_integer ? Type(IntegerType::get(element.getContext(), bits)) : element;
}

namespace {

VectorType vector_of(Type element, int64_t count) { return VectorType::get({count}, element); }

}  // namespace

Value Accesses::address(const Elements& elements, ViewOp view, IndexBuilder& indices, int64_t element) {
  const auto [dynamic, constant] = elements.index(element, indices);
  const auto flags = arith::IntegerOverflowFlags::nsw;
  const int64_t constant_bytes = constant * elements.bytes();
  const bool immediate = llvm::isInt<31>(constant_bytes);
  Value index = view.getOffset();
  if (!immediate) index = arith::AddIOp::create(b_, loc_, index, arith::ConstantIndexOp::create(b_, loc_, constant), flags);
  if (!dynamic.is(0)) index = arith::AddIOp::create(b_, loc_, index, indices.value(dynamic), flags);
  const Value scale = arith::ConstantIndexOp::create(b_, loc_, elements.bytes());
  const Value bytes = arith::IndexCastOp::create(b_, loc_, b_.getI64Type(), arith::MulIOp::create(b_, loc_, index, scale, flags));
  const Value pointer = view->getOperand(0);
  const LLVM::GEPArg by[] = {bytes};
  const Value base = LLVM::GEPOp::create(b_, loc_, pointer.getType(), b_.getI8Type(), pointer, by);
  if (constant == 0 || !immediate) return base;
  return LLVM::GEPOp::create(b_, loc_, pointer.getType(), b_.getI8Type(), base, ArrayRef<LLVM::GEPArg>{int32_t(constant_bytes)});
}

/// The elements of a vector with these numbers.
Value Accesses::pick(Value vector, ArrayRef<int64_t> elements) {
  bool whole = int64_t(elements.size()) == cast<VectorType>(vector.getType()).getNumElements();
  for (size_t i = 0; i < elements.size(); i++) whole &= elements[i] == int64_t(i);
  return whole ? vector : vector::ShuffleOp::create(b_, loc_, vector, vector, elements);
}

/// Shuffles of vectors of unlike lengths become an extraction and an insertion for each element: 25000 in a tiled GEMM.
Value Accesses::widened(Value vector, VectorType type) {
  const int64_t count = cast<VectorType>(vector.getType()).getNumElements();
  if (count == type.getNumElements()) return vector;
  SmallVector<int64_t> order(type.getNumElements(), vector::ShuffleOp::kPoisonIndex);
  std::iota(order.begin(), order.begin() + count, 0);
  return vector::ShuffleOp::create(b_, loc_, vector, vector, order);
}

/// Bit by bit: AMD's backend turns a vector of bits into a number through memory.
Value Accesses::all(Value mask) {
  Value result;
  for (int64_t i = 0; i < cast<VectorType>(mask.getType()).getNumElements(); i++) {
    const Value bit = vector::ExtractOp::create(b_, loc_, mask, i);
    result = result ? Value(arith::AndIOp::create(b_, loc_, result, bit)) : bit;
  }
  return result;
}

void Accesses::for_each_there(VectorType type, Value address, Value mask, function_ref<void(int64_t, Value, Value)> body) {
  for (int64_t i = 0; i < type.getNumElements(); i++)
    body(i, LLVM::GEPOp::create(b_, loc_, address.getType(), type.getElementType(), address, ArrayRef<LLVM::GEPArg>{int32_t(i)}),
         vector::ExtractOp::create(b_, loc_, mask, i));
}

Value Accesses::load_piece(Type type, Value address, int64_t align, Value mask, Value other) {
  if (!mask) return LLVM::LoadOp::create(b_, loc_, type, address, unsigned(align));
  if (target_.x86())
    return LLVM::MaskedLoadOp::create(b_, loc_, type, address, mask, other, b_.getI32IntegerAttr(align), nullptr);
  // GPUs have no masked loads: mostly all elements are there, and one wide load reads them.
  auto branch = scf::IfOp::create(b_, loc_, type, all(mask), /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b_);
  b_.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(b_, loc_, LLVM::LoadOp::create(b_, loc_, type, address, unsigned(align)).getResult());
  b_.setInsertionPointToStart(branch.elseBlock());
  Value result = other;
  for_each_there(cast<VectorType>(type), address, mask, [&](int64_t i, Value element, Value there) {
    const Type scalar = cast<VectorType>(type).getElementType();
    auto one = scf::IfOp::create(b_, loc_, scalar, there, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard inner(b_);
    b_.setInsertionPointToStart(one.thenBlock());
    scf::YieldOp::create(b_, loc_, LLVM::LoadOp::create(b_, loc_, scalar, element).getResult());
    b_.setInsertionPointToStart(one.elseBlock());
    scf::YieldOp::create(b_, loc_, Value(vector::ExtractOp::create(b_, loc_, other, i)));
    b_.setInsertionPointAfter(one);
    result = vector::InsertOp::create(b_, loc_, one.getResult(0), result, i);
  });
  scf::YieldOp::create(b_, loc_, result);
  return branch.getResult(0);
}

void Accesses::store_piece(Value value, Value address, int64_t align, Value mask) {
  if (!mask) return void(LLVM::StoreOp::create(b_, loc_, value, address, unsigned(align)));
  if (target_.x86()) return void(LLVM::MaskedStoreOp::create(b_, loc_, value, address, mask, unsigned(align)));
  auto branch = scf::IfOp::create(b_, loc_, all(mask), /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b_);
  b_.setInsertionPointToStart(branch.thenBlock());
  LLVM::StoreOp::create(b_, loc_, value, address, unsigned(align));
  b_.setInsertionPointToStart(branch.elseBlock());
  for_each_there(cast<VectorType>(value.getType()), address, mask, [&](int64_t i, Value element, Value there) {
    auto one = scf::IfOp::create(b_, loc_, there, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard inner(b_);
    b_.setInsertionPointToStart(one.thenBlock());
    LLVM::StoreOp::create(b_, loc_, vector::ExtractOp::create(b_, loc_, value, i), element);
  });
}

Value Accesses::load(const Elements& elements, ViewOp view, VectorType type, Value mask, Value other) {
  const Type element = stored_type(type.getElementType());
  const auto whole = vector_of(element, type.getNumElements());
  if (mask && !other) other = zero(type);
  if (other && !isa<VectorType>(other.getType())) other = vector::BroadcastOp::create(b_, loc_, type, other);
  if (other && type != whole) other = arith::BitcastOp::create(b_, loc_, whole, other);
  IndexBuilder indices = index_builder(view);
  Value result;
  for (const Piece& piece : pieces({&elements})) {
    const auto part = vector_of(element, int64_t(piece.size()));
    const Value loaded = load_piece(part, address(elements, view, indices, piece[0]), elements.alignment(piece[0]),
                                    mask ? pick(mask, piece) : nullptr, other ? pick(other, piece) : nullptr);
    SmallVector<int64_t> order(whole.getNumElements(), -1);
    bool in_order = part == whole;
    for (auto [i, at] : llvm::enumerate(piece)) order[at] = int64_t(i), in_order &= at == int64_t(i);
    if (in_order) {
      result = loaded;
      break;
    }
    for (int64_t at = 0; at < whole.getNumElements(); at++)
      if (order[at] < 0) order[at] = result ? whole.getNumElements() + at : vector::ShuffleOp::kPoisonIndex;
    const Value wide = result ? widened(loaded, whole) : loaded;
    result = vector::ShuffleOp::create(b_, loc_, wide, result ? result : wide, order);
  }
  return type == whole ? result : arith::BitcastOp::create(b_, loc_, type, result);
}

void Accesses::store(const Elements& elements, ViewOp view, Value value, Value mask) {
  const auto type = cast<VectorType>(value.getType());
  const auto whole = vector_of(stored_type(type.getElementType()), type.getNumElements());
  if (type != whole) value = arith::BitcastOp::create(b_, loc_, whole, value);
  IndexBuilder indices = index_builder(view);
  for (const Piece& piece : pieces({&elements}))
    store_piece(pick(value, piece), address(elements, view, indices, piece[0]), elements.alignment(piece[0]),
                mask ? pick(mask, piece) : nullptr);
}

void Accesses::copy(const Elements& from, ViewOp source, const Elements& to, ViewOp destination, Value mask, bool async) {
  const Type element = stored_type(source.getResult().getType().getElement());
  IndexBuilder source_indices = index_builder(source), destination_indices = index_builder(destination);
  for (const Piece& piece : pieces({&from, &to})) {
    const int64_t bytes = int64_t(piece.size()) * from.bytes();
    const Value source_address = address(from, source, source_indices, piece[0]);
    const Value destination_address = address(to, destination, destination_indices, piece[0]);
    if (async && bytes >= 4) {
      Value there;
      const auto number = [&](int64_t n) -> Value { return arith::ConstantIntOp::create(b_, loc_, n, 32); };
      if (mask) there = arith::SelectOp::create(b_, loc_, mask, number(bytes), number(0));
      const auto cache = bytes == 16 ? NVVM::LoadCacheModifierKind::CG : NVVM::LoadCacheModifierKind::CA;
      NVVM::CpAsyncOp::create(b_, loc_, destination_address, source_address, uint32_t(bytes), cache, there);
      continue;
    }
    const auto type = vector_of(element, int64_t(piece.size()));
    const auto align = unsigned(from.alignment(piece[0]));
    Value value;
    if (mask) {
      auto branch = scf::IfOp::create(
          b_, loc_, mask,
          [&](OpBuilder& b, Location loc) {
            scf::YieldOp::create(b, loc, LLVM::LoadOp::create(b, loc, type, source_address, align).getResult());
          },
          [&](OpBuilder& b, Location loc) {
            scf::YieldOp::create(b, loc, arith::ConstantOp::create(b, loc, b.getZeroAttr(type)).getResult());
          });
      value = branch.getResult(0);
    } else {
      value = LLVM::LoadOp::create(b_, loc_, type, source_address, align);
    }
    LLVM::StoreOp::create(b_, loc_, value, destination_address, unsigned(to.alignment(piece[0])));
  }
}

}  // namespace jaxator::flight
