#include "src/flight/passes/narrow_floats.h"

#include <cmath>

namespace jaxator::flight {

using namespace mlir;

namespace {

struct Format {
  int mantissa, bias;
  int64_t most;    // code of the largest finite number
  bool infinity;   // has one, after the largest number
  bool zero_once;  // the code of -0 is NaN
};

Format format_of(Type element) {
  if (isa<Float8E4M3FNType>(element)) return {3, 7, 0x7e, false, false};
  if (isa<Float8E5M2Type>(element)) return {2, 15, 0x7b, true, false};
  if (isa<Float8E4M3FNUZType>(element)) return {3, 8, 0x7f, false, true};
  return {2, 16, 0x7f, false, true};
}

/// Integer code on scalars or vectors.
class Code {
 public:
  Code(OpBuilder& b, Location loc, Type type) : b_(b), loc_(loc), shape_(dyn_cast<VectorType>(type)) {}

  Type like(Type element) const { return shape_ ? Type(VectorType::get(shape_.getShape(), element)) : element; }
  Value number(TypedAttr value) {
    const Type type = like(value.getType());
    if (const auto vector = dyn_cast<VectorType>(type))
      return arith::ConstantOp::create(b_, loc_, vector, DenseElementsAttr::get(vector, Attribute(value)));
    return arith::ConstantOp::create(b_, loc_, value);
  }
  Value i(int64_t value) { return number(b_.getI32IntegerAttr(int32_t(value))); }
  Value f(double value) { return number(b_.getF32FloatAttr(float(value))); }
  Value bits(Value x) { return arith::BitcastOp::create(b_, loc_, like(b_.getI32Type()), x); }
  Value real(Value x) { return arith::BitcastOp::create(b_, loc_, like(b_.getF32Type()), x); }
  Value both(Value x, Value y) { return arith::AndIOp::create(b_, loc_, x, y); }
  Value either(Value x, Value y) { return arith::OrIOp::create(b_, loc_, x, y); }
  Value add(Value x, Value y) { return arith::AddIOp::create(b_, loc_, x, y); }
  Value sub(Value x, Value y) { return arith::SubIOp::create(b_, loc_, x, y); }
  Value left(Value x, int64_t n) { return arith::ShLIOp::create(b_, loc_, x, i(n)); }
  Value right(Value x, int64_t n) { return arith::ShRUIOp::create(b_, loc_, x, i(n)); }
  Value less(Value x, int64_t y) { return arith::CmpIOp::create(b_, loc_, arith::CmpIPredicate::slt, x, i(y)); }
  Value equal(Value x, int64_t y) { return arith::CmpIOp::create(b_, loc_, arith::CmpIPredicate::eq, x, i(y)); }
  Value select(Value c, Value x, Value y) { return arith::SelectOp::create(b_, loc_, c, x, y); }

 private:
  OpBuilder& b_;
  Location loc_;
  VectorType shape_;
};

}  // namespace

bool is_narrow(Type element) { return isa<Float8E4M3FNType, Float8E5M2Type, Float8E4M3FNUZType, Float8E5M2FNUZType>(element); }

Value widen(OpBuilder& b, Location loc, Value value) {
  const Format format = format_of(getElementTypeOrSelf(value.getType()));
  Code c(b, loc, value.getType());
  const Value byte = arith::BitcastOp::create(b, loc, c.like(b.getI8Type()), value);
  const Value code = arith::ExtUIOp::create(b, loc, c.like(b.getI32Type()), byte);
  const Value size = c.both(code, c.i(0x7f)), sign = c.left(c.both(code, c.i(0x80)), 24);
  const Value normal = c.add(c.left(size, 23 - format.mantissa), c.i(int64_t(127 - format.bias) << 23));
  // Small ones by their integer: exact, whether denormals are flushed or not.
  const Value integer = arith::SIToFPOp::create(b, loc, c.like(b.getF32Type()), size);
  const Value scaled = arith::MulFOp::create(b, loc, integer, c.f(std::ldexp(1.0, 1 - format.bias - format.mantissa)));
  Value result = c.select(c.less(size, int64_t{1} << format.mantissa), c.bits(scaled), normal);
  const Value nan = c.i(0x7fc00000);
  if (!format.zero_once) {
    result = c.select(c.less(size, format.most + 1), result, nan);
    if (format.infinity) result = c.select(c.equal(size, format.most + 1), c.i(0x7f800000), result);
  }
  result = c.either(result, sign);
  if (format.zero_once) result = c.select(c.equal(code, 0x80), nan, result);
  return c.real(result);
}

Value narrow(OpBuilder& b, Location loc, Value value, Type element) {
  const Format format = format_of(element);
  Code c(b, loc, value.getType());
  const Value word = c.bits(value), size = c.both(word, c.i(0x7fffffff));
  const int shift = 23 - format.mantissa;
  // To nearest, ties to even: half a unit less one, and the last bit that stays.
  const Value tie = c.add(c.i((int64_t{1} << (shift - 1)) - 1), c.both(c.right(size, shift), c.i(1)));
  const Value normal = c.sub(c.right(c.add(size, tie), shift), c.i(int64_t(127 - format.bias) << format.mantissa));
  // Below the smallest normal number: adding 2^23 units rounds to a unit, and leaves their number in the low bits.
  const Value units = c.f(std::ldexp(1.0, 24 - format.bias - format.mantissa));
  const Value small = c.sub(c.bits(arith::AddFOp::create(b, loc, c.real(size), units)), c.bits(units));
  Value code = c.select(c.less(size, int64_t(128 - format.bias) << 23), small, normal);
  const int64_t nan = format.zero_once ? 0x80 : 0x7f;
  code = c.select(c.less(code, format.most + 1), code, c.i(format.infinity ? format.most + 1 : nan));
  code = c.select(c.less(size, 0x7f800001), code, c.i(nan));
  const Value sign = c.both(c.right(word, 24), c.i(0x80));
  code = format.zero_once ? c.select(c.equal(code, 0), code, c.either(code, sign)) : c.either(code, sign);
  const Value byte = arith::TruncIOp::create(b, loc, c.like(b.getI8Type()), code);
  return arith::BitcastOp::create(b, loc, c.like(element), byte);
}

}  // namespace jaxator::flight
