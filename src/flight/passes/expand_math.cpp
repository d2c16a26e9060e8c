/// @file
/// Elementary functions to arithmetic. AMD's backend knows exponentials and logarithms of f32, with denormals; what a target does
/// not know is made of polynomials. Half precision is computed in f32. Conversions of floats of 8 bits become integer arithmetic.
#include "src/flight/passes/elementary.h"
#include "src/flight/passes/narrow_floats.h"
#include "src/flight/passes/passes.h"
#include "src/flight/passes/tiles.h"

namespace jaxator::flight {

using namespace mlir;

namespace {

using Function = Value (Elementary::*)(Value);

Function function_of(Operation* op) {
  if (isa<math::ExpOp>(op)) return &Elementary::exp;
  if (isa<math::Exp2Op>(op)) return &Elementary::exp2;
  if (isa<math::ExpM1Op>(op)) return &Elementary::expm1;
  if (isa<math::LogOp>(op)) return &Elementary::log;
  if (isa<math::Log2Op>(op)) return &Elementary::log2;
  if (isa<math::Log10Op>(op)) return &Elementary::log10;
  if (isa<math::Log1pOp>(op)) return &Elementary::log1p;
  if (isa<math::SinOp>(op)) return &Elementary::sin;
  if (isa<math::CosOp>(op)) return &Elementary::cos;
  if (isa<math::TanhOp>(op)) return &Elementary::tanh;
  if (isa<math::ErfOp>(op)) return &Elementary::erf;
  if (isa<math::RsqrtOp>(op)) return &Elementary::rsqrt;
  return nullptr;
}

bool known_to_cdna(Operation* op) { return isa<math::ExpOp, math::Exp2Op, math::LogOp, math::Log2Op, math::Log10Op>(op); }

class ExpandMath : public PassWrapper<ExpandMath, OperationPass<ModuleOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ExpandMath)
  ExpandMath() = default;
  ExpandMath(const ExpandMath& other) : PassWrapper(other) {}
  explicit ExpandMath(const Target& target) { target_ = target.name; }

  StringRef getArgument() const override { return "flight-expand-math"; }
  StringRef getDescription() const override { return "elementary functions to arithmetic"; }
  void getDependentDialects(DialectRegistry& registry) const override {
    registry.insert<arith::ArithDialect, LLVM::LLVMDialect, math::MathDialect, vector::VectorDialect>();
  }

  void runOnOperation() override {
    const Target* target = find_target(target_);
    if (target == nullptr) {
      getOperation().emitError() << "target " << target_ << " is not one of " << target_names();
      return signalPassFailure();
    }
    SmallVector<Operation*> ops;
    getOperation().walk([&](Operation* op) {
      if (isa<math::MathDialect>(op->getDialect()) || isa<arith::ExtFOp, arith::TruncFOp>(op)) ops.push_back(op);
    });
    for (Operation* op : ops)
      if (failed(isa<math::MathDialect>(op->getDialect()) ? expand(op, *target) : convert_narrow(op))) return signalPassFailure();
  }

 private:
  LogicalResult expand(Operation* op, const Target& target) {
    const Type element = getElementTypeOrSelf(op->getResult(0).getType());
    const Function function = function_of(op);
    if (!isa<FloatType>(element)) return success();
    if (element.isF64() && function != nullptr && !isa<math::RsqrtOp>(op)) {
      if (target.x86()) return success();  // the process that loads the code has a mathematical library
      return op->emitError() << op->getName() << " of f64 is not available on " << target.name << ": convert to f32";
    }
    OpBuilder b(op);
    const Location loc = op->getLoc();
    if (element.isF64()) {
      if (function == nullptr) return success();
      const Value one = arith::ConstantOp::create(b, loc, b.getOneAttr(op->getResult(0).getType()));
      op->getResult(0).replaceAllUsesWith(arith::DivFOp::create(b, loc, one, math::SqrtOp::create(b, loc, op->getOperand(0))));
      op->erase();
      return success();
    }
    if (function == nullptr || (target.cdna() && known_to_cdna(op) && element.isF32())) return success();
    Value result;
    const Value x = convert(b, loc, op->getOperand(0), b.getF32Type());
    if (target.cdna() && known_to_cdna(op))
      result = b.create(loc, op->getName().getIdentifier(), x, x.getType())->getResult(0);
    else
      result = (Elementary(b, loc, x.getType(), target.nvidia()).*function)(x);
    op->getResult(0).replaceAllUsesWith(convert(b, loc, result, element));
    op->erase();
    return success();
  }

  LogicalResult convert_narrow(Operation* op) {
    const Value from = op->getOperand(0);
    const Type source = getElementTypeOrSelf(from.getType()), result = getElementTypeOrSelf(op->getResult(0).getType());
    if (!is_narrow(source) && !is_narrow(result)) return success();
    if (source.isF64()) return op->emitError() << "f64 to " << result << " would be rounded twice: convert to f32 first";
    OpBuilder b(op);
    const Location loc = op->getLoc();
    const Value wide = is_narrow(source) ? widen(b, loc, from) : convert(b, loc, from, b.getF32Type());
    const Value made = is_narrow(result) ? narrow(b, loc, wide, result) : convert(b, loc, wide, result);
    op->getResult(0).replaceAllUsesWith(made);
    op->erase();
    return success();
  }

  Option<std::string> target_{*this, "target", llvm::cl::desc("the machine"), llvm::cl::init("x86-64")};
};

}  // namespace

std::unique_ptr<Pass> create_expand_math(const Target& target) { return std::make_unique<ExpandMath>(target); }

}  // namespace jaxator::flight
