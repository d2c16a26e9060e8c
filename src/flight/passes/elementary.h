/// @file
/// Elementary functions of f32 as polynomials: no target links a mathematical library. Errors are in units in the last place,
/// over all arguments, measured by the tests; NaN gives NaN, and infinities what C's functions give.
#pragma once

#include "src/flight/passes/precompiled.h"

namespace jaxator::flight {

/// Code on scalars or vectors of f32, as the type says.
class Elementary {
 public:
  Elementary(mlir::OpBuilder& b, mlir::Location loc, mlir::Type type, bool nvidia)
      : b_(b), loc_(loc), type_(type), nvidia_(nvidia) {}

  mlir::Value exp(mlir::Value x);                                // 2, and 3 with the special-function unit
  mlir::Value exp2(mlir::Value x);                               // 2
  mlir::Value expm1(mlir::Value x);                              // 4
  mlir::Value log(mlir::Value x);                                // 2
  mlir::Value log2(mlir::Value x);                               // 3
  mlir::Value log10(mlir::Value x);                              // 3
  mlir::Value log1p(mlir::Value x);                              // 3
  mlir::Value sin(mlir::Value x) { return circular(x, false); }  // 2 for |x| < 2^40
  mlir::Value cos(mlir::Value x) { return circular(x, true); }   // 2 for |x| < 2^40
  mlir::Value tanh(mlir::Value x);                               // 3
  mlir::Value erf(mlir::Value x);                                // 3
  mlir::Value rsqrt(mlir::Value x);                              // 1

 private:
  mlir::Type like(mlir::Type element);
  mlir::Value number(mlir::TypedAttr value);
  mlir::Value f(double value) { return number(b_.getF32FloatAttr(float(value))); }
  mlir::Value i(int64_t value) { return number(b_.getI32IntegerAttr(int32_t(value))); }
  mlir::Value add(mlir::Value x, mlir::Value y) { return mlir::arith::AddFOp::create(b_, loc_, x, y); }
  mlir::Value sub(mlir::Value x, mlir::Value y) { return mlir::arith::SubFOp::create(b_, loc_, x, y); }
  mlir::Value mul(mlir::Value x, mlir::Value y) { return mlir::arith::MulFOp::create(b_, loc_, x, y); }
  mlir::Value div(mlir::Value x, mlir::Value y) { return mlir::arith::DivFOp::create(b_, loc_, x, y); }
  mlir::Value fma(mlir::Value x, mlir::Value y, mlir::Value z) { return mlir::math::FmaOp::create(b_, loc_, x, y, z); }
  mlir::Value absolute(mlir::Value x) { return mlir::math::AbsFOp::create(b_, loc_, x); }
  mlir::Value less(mlir::Value x, mlir::Value y) {
    return mlir::arith::CmpFOp::create(b_, loc_, mlir::arith::CmpFPredicate::OLT, x, y);
  }
  mlir::Value equal(mlir::Value x, mlir::Value y) {
    return mlir::arith::CmpFOp::create(b_, loc_, mlir::arith::CmpFPredicate::OEQ, x, y);
  }
  mlir::Value select(mlir::Value condition, mlir::Value x, mlir::Value y) {
    return mlir::arith::SelectOp::create(b_, loc_, condition, x, y);
  }
  mlir::Value bits(mlir::Value x) { return mlir::arith::BitcastOp::create(b_, loc_, like(b_.getI32Type()), x); }
  mlir::Value real(mlir::Value x) { return mlir::arith::BitcastOp::create(b_, loc_, type_, x); }
  mlir::Value polynomial(mlir::Value x, llvm::ArrayRef<double> coefficients);
  mlir::Value clamp(mlir::Value x, double least, double most);
  std::pair<mlir::Value, mlir::Value> round(mlir::Value x);
  mlir::Value scale(mlir::Value x, mlir::Value exponent);
  mlir::Value exp_small(mlir::Value r);
  mlir::Value log_parts(mlir::Value x, mlir::Value& exponent);
  mlir::Value log_edges(mlir::Value x, mlir::Value y);
  mlir::Value circular(mlir::Value x, bool cosine);
  mlir::Value hardware_exp2(mlir::Value x);

  mlir::OpBuilder& b_;
  mlir::Location loc_;
  mlir::Type type_;
  bool nvidia_;
};

}  // namespace jaxator::flight
