#include "src/flight/passes/tiles_pack.h"

#include "src/flight/passes/tiles.h"

namespace jaxator::flight {

using namespace mlir;

Type BlockedProduct::word(MLIRContext* context) const {
  Builder b(context);
  return dot == Dot::fma ? Type(b.getF32Type()) : Type(b.getI32Type());
}

BlockedProduct block_product(const Product& product, Type operand, const Vectors& vectors) {
  BlockedProduct result{Dot::fma, product.m, product.n, product.k, 1, 1, 1, 1};
  result.lanes = std::min<int64_t>(vectors.bytes / 4, int64_t(uint64_t(product.n) & (0 - uint64_t(product.n))));
  if (operand.isInteger(8)) result.dot = vectors.int8_dot && result.lanes >= 4 ? Dot::int8 : Dot::plain_int8;
  if (product.atom->name == "dot_bf16" && vectors.bf16_dot && result.lanes >= 4) result.dot = Dot::bf16;
  result.group = result.dot == Dot::bf16 ? 2 : result.dot == Dot::int8 ? 4 : 1;
  result.groups = product.k / result.group;
  // A block's sums, a vector of B for each of its columns, and one word of A stay in registers: 14 x 2 of 32, 6 x 2 of 16. More
  // than 14 rows are no faster, and 8 already hide the latency.
  const int64_t vectors_n = product.n / result.lanes;
  result.columns = vectors_n % 2 == 0 ? 2 : vectors_n % 3 == 0 ? 3 : 1;
  result.rows = std::min<int64_t>(14, (vectors.registers - 2 - result.columns) / result.columns);
  return result;
}

Value Packer::add(Value x, Value y) { return arith::AddIOp::create(b_, loc_, x, y, arith::IntegerOverflowFlags::nsw); }
Value Packer::times(Value x, int64_t n) { return arith::MulIOp::create(b_, loc_, x, index(n), arith::IntegerOverflowFlags::nsw); }

void Packer::loop(int64_t end, int64_t step, function_ref<void(Value)> body) {
  if (end <= step) return body(index(0));
  auto made = scf::ForOp::create(b_, loc_, index(0), index(end), index(step));
  OpBuilder::InsertionGuard guard(b_);
  b_.setInsertionPointToStart(made.getBody());
  body(made.getInductionVar());
}

Value Packer::view(Value pointer, Value offset, int64_t width) {
  const Type element = cast<PtrType>(pointer.getType()).getElement();
  const auto type = ViewType::get(b_.getContext(), element, Space::Shared, std::to_string(width) + ":1", 4);
  return ViewOp::create(b_, loc_, type, pointer, offset, ValueRange());
}

Value Packer::load(Value pointer, Value offset, int64_t width) {
  const auto type = VectorType::get({width}, cast<PtrType>(pointer.getType()).getElement());
  return LoadOp::create(b_, loc_, type, view(pointer, offset, width), Value(), Value());
}

void Packer::store(Value value, Value pointer, Value offset) {
  StoreOp::create(b_, loc_, value, view(pointer, offset, cast<VectorType>(value.getType()).getNumElements()), Value());
}

/// Neighbours of k as words.
Value Packer::words(Value elements) {
  const Type word = p_.word(b_.getContext());
  if (p_.group == 1) return convert(b_, loc_, elements, word);
  const int64_t count = cast<VectorType>(elements.getType()).getNumElements() / p_.group;
  return vector::BitCastOp::create(b_, loc_, VectorType::get({count}, word), elements);
}

/// A word of each of `width` rows, where rows are contiguous in memory.
Value Packer::interleaved(ReadOperand read, Value row, Value group, int64_t width) {
  const Value k = times(group, p_.group);
  if (p_.group == 1) return words(read(row, k, 0, width));
  const auto integers = VectorType::get({width}, b_.getIntegerType(unsigned(32 / p_.group)));
  const auto at = [&](int64_t i) -> Value {
    const Value elements = read(row, add(k, index(i)), 0, width);
    return elements.getType() == integers ? elements : Value(vector::BitCastOp::create(b_, loc_, integers, elements));
  };
  const auto weave = [&](Value x, Value y) -> Value {
    SmallVector<int64_t> order;
    const int64_t count = cast<VectorType>(x.getType()).getNumElements();
    for (int64_t i = 0; i < count; i++) order.append({i, count + i});
    return vector::ShuffleOp::create(b_, loc_, x, y, order);
  };
  if (p_.group == 2) return words(weave(at(0), at(1)));
  // Elements 0, 2 and 1, 3 first, so that the second weaving puts them in order.
  return words(weave(weave(at(0), at(2)), weave(at(1), at(3))));
}

Value Packer::unsigned_bytes(Value words) {
  const auto type = cast<VectorType>(words.getType());
  const auto flip = DenseElementsAttr::get(type, b_.getIntegerAttr(type.getElementType(), APInt(32, 0x80808080u)));
  return arith::XOrIOp::create(b_, loc_, words, arith::ConstantOp::create(b_, loc_, type, flip));
}

void Packer::rows(const Packed& to, ReadOperand read, bool along_k) {
  const auto put = [&](Value words, Value row, Value group) {
    if (p_.dot == Dot::int8) words = unsigned_bytes(words);
    store(words, to.pointer, add(times(row, to.row_stride), times(group, to.group_stride)));
  };
  const int64_t length = along_k ? p_.groups : p_.m;
  const int64_t width = std::min<int64_t>(p_.lanes, int64_t(uint64_t(length) & (0 - uint64_t(length))));
  if (along_k)
    return loop(p_.m, 1, [&](Value row) {
      loop(p_.groups, width,
           [&](Value group) { put(words(read(row, times(group, p_.group), 1, width * p_.group)), row, group); });
    });
  loop(p_.groups, 1,
       [&](Value group) { loop(p_.m, width, [&](Value row) { put(interleaved(read, row, group, width), row, group); }); });
}

/// A square: vector i gets element i of all of them. Halves of halves are exchanged.
void Packer::transpose(SmallVectorImpl<Value>& rows) {
  const int64_t size = int64_t(rows.size());
  for (int64_t step = size / 2; step > 0; step /= 2) {
    SmallVector<int64_t> low, high;
    for (int64_t lane = 0; lane < size; lane++) {
      low.push_back((lane & step) == 0 ? lane : size + lane - step);
      high.push_back((lane & step) == 0 ? lane + step : size + lane);
    }
    for (int64_t i = 0; i < size; i++) {
      if ((i & step) != 0) continue;
      const Value x = rows[i], y = rows[i + step];
      rows[i] = vector::ShuffleOp::create(b_, loc_, x, y, low);
      rows[i + step] = vector::ShuffleOp::create(b_, loc_, x, y, high);
    }
  }
}

void Packer::panels(const Packed& to, ReadOperand read, bool along_k, Value sums) {
  const bool square = along_k && p_.groups % p_.lanes == 0;
  loop(p_.n / p_.panel(), 1, [&](Value panel) {
    for (int64_t vector = 0; vector < p_.columns; vector++) {
      const Value column = add(times(panel, p_.panel()), index(vector * p_.lanes));
      const Value first = add(times(panel, to.panel_stride), index(vector * p_.lanes));
      const auto at = [&](Value group) { return add(first, times(group, to.group_stride)); };
      if (square)
        loop(p_.groups, p_.lanes, [&](Value group) {
          SmallVector<Value> block;
          for (int64_t i = 0; i < p_.lanes; i++)
            block.push_back(words(read(add(column, index(i)), times(group, p_.group), 1, p_.lanes * p_.group)));
          transpose(block);
          for (int64_t i = 0; i < p_.lanes; i++) store(block[i], to.pointer, at(add(group, index(i))));
        });
      else
        loop(p_.groups, 1, [&](Value group) { store(interleaved(read, column, group, p_.lanes), to.pointer, at(group)); });
      if (!sums) continue;
      const auto type = VectorType::get({p_.lanes}, b_.getI32Type());
      const auto constant = [&](uint32_t n) -> Value {
        return arith::ConstantOp::create(b_, loc_, type,
                                         DenseElementsAttr::get(type, b_.getIntegerAttr(b_.getI32Type(), APInt(32, n))));
      };
      auto total = scf::ForOp::create(b_, loc_, index(0), index(p_.groups), index(1), constant(0));
      OpBuilder::InsertionGuard guard(b_);
      b_.setInsertionPointToStart(total.getBody());
      const Value bytes = load(to.pointer, at(total.getInductionVar()), p_.lanes);
      scf::YieldOp::create(b_, loc_, dot(constant(0x80808080u), bytes, total.getRegionIterArg(0)));
      b_.setInsertionPointAfter(total);
      store(total.getResult(0), sums, column);
    }
  });
}

Value Packer::dot(Value a, Value b, Value sum) {
  if (p_.dot == Dot::fma || p_.dot == Dot::plain_int8) return multiply_add(b_, loc_, a, b, sum);
  const std::string bits = std::to_string(p_.lanes * 32);
  const bool bf16 = p_.dot == Dot::bf16;
  const auto type = VectorType::get({p_.lanes * p_.group}, bf16 ? Type(b_.getBF16Type()) : Type(b_.getI8Type()));
  const auto part = [&](Value words) { return vector::BitCastOp::create(b_, loc_, type, words).getResult(); };
  const std::string name = bf16 ? "llvm.x86.avx512bf16.dpbf16ps." + bits : "llvm.x86.avx512.vpdpbusd." + bits;
  return LLVM::CallIntrinsicOp::create(b_, loc_, sum.getType(), b_.getStringAttr(name), ValueRange{sum, part(a), part(b)})
      .getResult(0);
}

/// The sums of `rows` rows and one panel, over all of k.
void Packer::block(const Packed& a, const Packed& b, Value c, Value sums, Value panel, Value first_row, int64_t rows) {
  const Value column = times(panel, p_.panel());
  const auto place = [&](int64_t r, int64_t v) {
    return add(add(times(first_row, p_.n), column), index(r * p_.n + v * p_.lanes));
  };
  SmallVector<Value> start;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t v = 0; v < p_.columns; v++) {
      Value sum = load(c, place(r, v), p_.lanes);
      if (sums) sum = arith::SubIOp::create(b_, loc_, sum, load(sums, add(column, index(v * p_.lanes)), p_.lanes));
      start.push_back(sum);
    }
  const Value row = times(first_row, a.row_stride), from = times(panel, b.panel_stride);
  auto over_k = scf::ForOp::create(b_, loc_, index(0), index(p_.groups), index(1), start);
  {
    OpBuilder::InsertionGuard guard(b_);
    b_.setInsertionPointToStart(over_k.getBody());
    const Value group = over_k.getInductionVar();
    const Value at_a = add(row, times(group, a.group_stride)), at_b = add(from, times(group, b.group_stride));
    SmallVector<Value> next = llvm::to_vector(ValueRange(over_k.getRegionIterArgs())), right;
    for (int64_t v = 0; v < p_.columns; v++) right.push_back(load(b.pointer, add(at_b, index(v * p_.lanes)), p_.lanes));
    const auto type = cast<VectorType>(right[0].getType());
    for (int64_t r = 0; r < rows; r++) {
      const Value word = load(a.pointer, add(at_a, index(r * a.row_stride)), 1);
      const Value left = vector::BroadcastOp::create(b_, loc_, type, vector::ExtractOp::create(b_, loc_, word, 0));
      for (int64_t v = 0; v < p_.columns; v++) next[r * p_.columns + v] = dot(left, right[v], next[r * p_.columns + v]);
    }
    scf::YieldOp::create(b_, loc_, next);
  }
  for (int64_t r = 0; r < rows; r++)
    for (int64_t v = 0; v < p_.columns; v++) store(over_k.getResult(unsigned(r * p_.columns + v)), c, place(r, v));
}

void Packer::multiply(const Packed& a, const Packed& b, Value c, Value sums) {
  // Blocks of equal size, or of one row more: no rows are padded.
  const int64_t blocks = (p_.m + p_.rows - 1) / p_.rows, rows = p_.m / blocks, larger = p_.m % blocks;
  loop(p_.n / p_.panel(), 1, [&](Value panel) {
    if (larger > 0) loop(larger * (rows + 1), rows + 1, [&](Value row) { block(a, b, c, sums, panel, row, rows + 1); });
    if (larger < blocks)
      loop((blocks - larger) * rows, rows,
           [&](Value row) { block(a, b, c, sums, panel, add(row, index(larger * (rows + 1))), rows); });
  });
}

}  // namespace jaxator::flight
