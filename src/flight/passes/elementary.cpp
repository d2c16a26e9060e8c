#include "src/flight/passes/elementary.h"

namespace jaxator::flight {

using namespace mlir;

namespace {

constexpr double kLog2E = 1.4426950408889634, kLog2 = 0.6931471805599453;
constexpr float kLog2High = 0.693359375f;  // 10 bits: its product with an exponent is exact
constexpr double kLog2Low = kLog2 - kLog2High;

}  // namespace

Type Elementary::like(Type element) {
  const auto vector = dyn_cast<VectorType>(type_);
  return vector ? Type(VectorType::get(vector.getShape(), element)) : element;
}

Value Elementary::number(TypedAttr value) {
  const Type type = like(value.getType());
  if (const auto vector = dyn_cast<VectorType>(type))
    return arith::ConstantOp::create(b_, loc_, vector, DenseElementsAttr::get(vector, Attribute(value)));
  return arith::ConstantOp::create(b_, loc_, value);
}

/// Coefficients from the lowest power on.
Value Elementary::polynomial(Value x, ArrayRef<double> coefficients) {
  Value sum = f(coefficients.back());
  for (const double c : llvm::reverse(coefficients.drop_back())) sum = fma(sum, x, f(c));
  return sum;
}

/// NaN stays.
Value Elementary::clamp(Value x, double least, double most) {
  const Value low = select(less(x, f(least)), f(least), x);
  return select(less(f(most), low), f(most), low);
}

/// The nearest integer, for |x| < 2^22, as a float and as an integer: adding 1.5 * 2^23 leaves it in the low bits.
std::pair<Value, Value> Elementary::round(Value x) {
  const Value magic = f(12582912.0), shifted = add(x, magic);
  return {sub(shifted, magic), arith::SubIOp::create(b_, loc_, bits(shifted), bits(magic))};
}

/// x * 2^n for |n| <= 252, in two steps, so that neither power overflows and small results are rounded once.
Value Elementary::scale(Value x, Value exponent) {
  const auto power = [&](Value n) {
    return real(arith::ShLIOp::create(b_, loc_, arith::AddIOp::create(b_, loc_, n, i(127)), i(23)));
  };
  const Value half = arith::ShRSIOp::create(b_, loc_, exponent, i(1));
  return mul(mul(x, power(half)), power(arith::SubIOp::create(b_, loc_, exponent, half)));
}

/// The special-function unit: 2 units, denormals included.
Value Elementary::hardware_exp2(Value x) {
  const auto one = [&](Value scalar) {
    return LLVM::CallIntrinsicOp::create(b_, loc_, b_.getF32Type(), b_.getStringAttr("llvm.nvvm.ex2.approx"), scalar)
        .getResult(0);
  };
  const auto vector = dyn_cast<VectorType>(type_);
  if (!vector) return one(x);
  SmallVector<Value> parts;
  for (int64_t k = 0; k < vector.getNumElements(); k++) parts.push_back(one(vector::ExtractOp::create(b_, loc_, x, k)));
  return vector::FromElementsOp::create(b_, loc_, vector, parts);
}

Value Elementary::exp2(Value x) {
  if (nvidia_) return hardware_exp2(x);
  const Value kept = clamp(x, -151.0, 129.0);
  const auto [whole, exponent] = round(kept);
  const Value rest = sub(kept, whole);
  // 2^f = 1 + f q(f), 2^-28 on |f| <= 1/2.
  const Value q = polynomial(rest, {0.6931471824645996, 0.24022647738456726, 0.05550331994891167, 0.009618439711630344,
                                    0.001339913229458034, 0.0001535315386718139});
  return scale(fma(rest, q, f(1.0)), exponent);
}

/// e^r for |r| <= log(2) / 2, without the 1: r + r^2 p(r), 2^-28.
Value Elementary::exp_small(Value r) {
  const Value p =
      polynomial(r, {0.4999999403953552, 0.1666651964187622, 0.04166839271783829, 0.008368780836462975, 0.0013814467238262296});
  return fma(mul(r, r), p, r);
}

Value Elementary::exp(Value x) {
  const Value kept = clamp(x, -105.0, 89.0);
  if (nvidia_) {
    // The exponent in two parts: its rounding alone would count |x| * 2^-24.
    const Value high = mul(kept, f(kLog2E));
    const Value low = fma(kept, f(kLog2E - float(kLog2E)), fma(kept, f(kLog2E), sub(f(0.0), high)));
    const Value power = hardware_exp2(high);
    return fma(mul(power, low), f(kLog2), power);
  }
  const auto [whole, exponent] = round(mul(kept, f(kLog2E)));
  const Value rest = fma(whole, f(-kLog2Low), fma(whole, f(-kLog2High), kept));
  return scale(add(exp_small(rest), f(1.0)), exponent);
}

Value Elementary::expm1(Value x) {
  const Value near = less(absolute(x), f(0.34657359));
  const Value small = exp_small(select(near, x, f(0.0)));
  // Keeps the sign of a zero, and NaN.
  return select(near, select(equal(x, f(0.0)), x, small), sub(exp(x), f(1.0)));
}

/// log(m) with x = m * 2^exponent, m from sqrt(1/2) on, less than sqrt(2); x positive and finite.
Value Elementary::log_parts(Value x, Value& exponent) {
  const Value denormal = less(x, f(0x1p-126));
  const Value normal = select(denormal, mul(x, f(0x1p23)), x);
  const Value word = bits(normal);
  const Value steps = arith::ShRSIOp::create(b_, loc_, arith::SubIOp::create(b_, loc_, word, i(0x3f3504f3)), i(23));
  const Value mantissa = real(arith::SubIOp::create(b_, loc_, word, arith::ShLIOp::create(b_, loc_, steps, i(23))));
  exponent = add(arith::SIToFPOp::create(b_, loc_, type_, steps), select(denormal, f(-23.0), f(0.0)));
  return sub(mantissa, f(1.0));
}

Value Elementary::log_edges(Value x, Value y) {
  const Value zero = f(0.0), infinity = f(INFINITY);
  Value result = select(equal(x, zero), f(-INFINITY), y);
  result = select(equal(x, infinity), infinity, result);
  // Not x >= 0: negative, or NaN.
  const Value legal = arith::CmpFOp::create(b_, loc_, arith::CmpFPredicate::OGE, x, zero);
  return select(legal, result, f(NAN));
}

namespace {

/// log(1 + f) = f - f^2 / 2 + f^3 p(f), 2^-30 for f from sqrt(1/2) - 1 to sqrt(2) - 1.
constexpr double kLog[] = {0.3333331048488617,   -0.24999986588954926, 0.20002226531505585,
                           -0.16669251024723053, 0.14218658208847046,  -0.12384341657161713,
                           0.11872966587543488,  -0.11789842694997787, 0.06915431469678879};

}  // namespace

Value Elementary::log(Value x) {
  Value exponent;
  const Value m = log_parts(x, exponent), square = mul(m, m);
  Value rest = mul(mul(square, m), polynomial(m, kLog));
  rest = fma(exponent, f(kLog2Low), rest);
  rest = fma(square, f(-0.5), rest);
  return log_edges(x, fma(exponent, f(kLog2High), add(m, rest)));
}

Value Elementary::log2(Value x) {
  Value exponent;
  const Value m = log_parts(x, exponent), square = mul(m, m);
  const Value rest = fma(square, f(-0.5), mul(mul(square, m), polynomial(m, kLog)));
  // log2(e) = 1.4427 in two parts, the product with m exact to twice the precision.
  const Value low = fma(m, f(kLog2E - float(kLog2E)), mul(rest, f(kLog2E)));
  return log_edges(x, add(exponent, fma(m, f(kLog2E), low)));
}

Value Elementary::log10(Value x) { return mul(log(x), f(0.4342944819032518)); }

Value Elementary::log1p(Value x) {
  const Value sum = add(x, f(1.0)), back = sub(sum, f(1.0));
  // The rounding of 1 + x is made good by the ratio of what was asked and what was taken.
  const Value same = equal(back, f(0.0)), endless = equal(sum, f(INFINITY));
  const Value ratio = div(x, select(same, f(1.0), back));
  const Value taken = log(sum);
  return select(same, x, select(endless, taken, select(equal(sum, f(0.0)), taken, mul(taken, ratio))));
}

/// Quarter turns are counted in f64, in two parts of pi / 2: the rest is exact to 2^-53 up to |x| = 2^40.
Value Elementary::circular(Value x, bool cosine) {
  const auto wide = [&](double value) { return number(b_.getF64FloatAttr(value)); };
  const Type f64 = like(b_.getF64Type()), i64 = like(b_.getI64Type());
  const Value angle = arith::ExtFOp::create(b_, loc_, f64, x), magic = wide(6755399441055744.0);  // 1.5 * 2^52
  const Value shifted = math::FmaOp::create(b_, loc_, angle, wide(0.6366197723675814), magic);
  const Value turns = arith::SubFOp::create(b_, loc_, shifted, magic);
  Value rest = math::FmaOp::create(b_, loc_, turns, wide(-1.5707963267948966), angle);
  rest = math::FmaOp::create(b_, loc_, turns, wide(-6.123233995736766e-17), rest);
  const Value r = arith::TruncFOp::create(b_, loc_, type_, rest), square = mul(r, r);
  Value quarter = arith::TruncIOp::create(b_, loc_, like(b_.getI32Type()), arith::BitcastOp::create(b_, loc_, i64, shifted));
  if (cosine) quarter = arith::AddIOp::create(b_, loc_, quarter, i(1));

  const Value s =
      fma(mul(square, r),
          polynomial(square, {-0.1666666716337204, 0.008333329111337662, -0.00019839327433146536, 2.71823728326126e-06}), r);
  const Value c =
      fma(mul(square, square), polynomial(square, {0.04166664555668831, -0.001388736185617745, 2.4437729734927416e-05}),
          fma(square, f(-0.5), f(1.0)));
  const auto bit = [&](int64_t mask) -> Value { return arith::AndIOp::create(b_, loc_, quarter, i(mask)); };
  const Value odd = arith::CmpIOp::create(b_, loc_, arith::CmpIPredicate::ne, bit(1), i(0));
  const Value sign = arith::ShLIOp::create(b_, loc_, bit(2), i(30));
  return real(arith::XOrIOp::create(b_, loc_, bits(select(odd, c, s)), sign));
}

Value Elementary::tanh(Value x) {
  const Value size = absolute(x), square = mul(x, x);
  const Value q = polynomial(
      square, {-0.3333328366279602, 0.13331490755081177, -0.05374349653720856, 0.020650584250688553, -0.005717042367905378});
  const Value small = fma(mul(square, x), q, x);
  const Value power = exp(add(size, size));
  const Value large = sub(f(1.0), div(f(2.0), add(power, f(1.0))));
  return select(less(size, f(0.625)), small, math::CopySignOp::create(b_, loc_, large, x));
}

Value Elementary::erf(Value x) {
  const Value size = absolute(x), square = mul(x, x);
  const Value small = mul(x, polynomial(square, {1.128379225730896, -0.37612634897232056, 0.1128372773528099, -0.0268610380589962,
                                                 0.005204948130995035, -0.0008186378399841487, 8.553816587664187e-05}));
  // 1 - e^-p(x), p = -log(1 - erf): 2^-34 from 0.9 to 4; 1 from 4 on.
  const Value kept = clamp(size, 0.9, 4.0);
  const Value p = polynomial(kept, {-0.00016920347115956247, 1.1294883489608765, 0.6334008574485779, 0.10822036117315292,
                                    -0.0250806026160717, 0.004156249109655619, -0.0004313922836445272, 2.082850187434815e-05});
  const Value large = sub(f(1.0), exp(sub(f(0.0), p)));
  return select(less(size, f(0.9)), small, math::CopySignOp::create(b_, loc_, large, x));
}

Value Elementary::rsqrt(Value x) { return div(f(1.0), math::SqrtOp::create(b_, loc_, x)); }

}  // namespace jaxator::flight
