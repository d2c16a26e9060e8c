/// @file
/// A thread's `mma` to the target's instruction.
#include "src/flight/atoms.h"
#include "src/flight/passes/passes.h"
#include "src/flight/passes/precompiled.h"
#include "src/flight/passes/tiles.h"
#include "src/flight/passes/tiles_mma.h"

namespace jaxator::flight {

using namespace mlir;

namespace {

class LowerAtom {
 public:
  LowerAtom(MmaOp op, const Atom& atom) : op_(op), atom_(atom), b_(op), loc_(op.getLoc()) {}

  LogicalResult run() {
    if (failed(check(op_.getA(), "a", atom_.a)) || failed(check(op_.getB(), "b", atom_.b)) ||
        failed(check(op_.getC(), "c", atom_.c)))
      return failure();
    Value result;
    switch (atom_.kind) {
      case AtomKind::plain:
        result = plain();
        break;
      case AtomKind::mfma:
        result = mfma();
        break;
      case AtomKind::mfma_scale:
        result = mfma_scale();
        break;
      case AtomKind::mma_sync:
        result = mma_sync();
        break;
      case AtomKind::wgmma:
        return op_.emitError() << op_.getAtom() << " multiplies shared memory: use it for whole tiles";
    }
    op_.replaceAllUsesWith(result);
    op_.erase();
    return success();
  }

 private:
  LogicalResult check(Value operand, const char* name, const layout::Layout& spread) {
    const int64_t given = cast<VectorType>(operand.getType()).getNumElements(), needed = layout::size(spread.mode(1)).value;
    if (given == needed) return success();
    return op_.emitError() << op_.getAtom() << ": " << name << " has " << given << " values of a lane, not " << needed;
  }

  Value number(int64_t n) { return arith::ConstantIntOp::create(b_, loc_, n, 32); }
  Value intrinsic(Type result, ValueRange arguments) {
    return LLVM::CallIntrinsicOp::create(b_, loc_, result, b_.getStringAttr(atom_.intrinsic), arguments).getResult(0);
  }
  /// The same bits as a vector, or as the one element of it.
  Value bits(Value vector, Type element) {
    const auto type = cast<VectorType>(vector.getType());
    const int64_t count = type.getNumElements() * type.getElementTypeBitWidth() / element.getIntOrFloatBitWidth();
    const auto wanted = VectorType::get({count}, element);
    if (wanted != type) vector = vector::BitCastOp::create(b_, loc_, wanted, vector);
    return count == 1 ? Value(vector::ExtractOp::create(b_, loc_, vector, 0)) : vector;
  }

  Value plain() {
    const Type element = cast<VectorType>(op_.getC().getType()).getElementType();
    Value sum = vector::ExtractOp::create(b_, loc_, op_.getC(), 0);
    const Value a = convert(b_, loc_, op_.getA(), element), b = convert(b_, loc_, op_.getB(), element);
    for (int k = 0; k < atom_.k; k++)
      sum = multiply_add(b_, loc_, vector::ExtractOp::create(b_, loc_, a, k), vector::ExtractOp::create(b_, loc_, b, k), sum);
    return vector::FromElementsOp::create(b_, loc_, op_.getC().getType(), sum);
  }

  /// As the intrinsic takes it: floats as they are, but bf16 of the older shapes as integers; bytes as one or more words.
  Value mfma_operand(Value operand) {
    const auto type = cast<VectorType>(operand.getType());
    const Type element = type.getElementType();
    if (element.isF32()) return bits(operand, element);
    if (element.isBF16() && StringRef(atom_.intrinsic).ends_with(".1k")) return bits(operand, b_.getI16Type());
    if (element.isBF16() || element.isF16()) return operand;
    return type.getNumElements() == 8 ? bits(operand, b_.getI64Type()) : bits(operand, b_.getI32Type());
  }

  Value mfma() {
    return intrinsic(op_.getC().getType(),
                     {mfma_operand(op_.getA()), mfma_operand(op_.getB()), op_.getC(), number(0), number(0), number(0)});
  }

  Value mfma_scale() {
    const int format = atom_.operand == "f4E2M1FN" ? 4 : atom_.operand == "f8E5M2" ? 1 : 0;
    const auto scale = [&](Value given) { return given ? given : number(127); };  // E8M0: 2^0
    return intrinsic(op_.getC().getType(),
                     {bits(op_.getA(), b_.getI32Type()), bits(op_.getB(), b_.getI32Type()), op_.getC(), number(format),
                      number(format), number(0), scale(op_.getScaleA()), number(0), scale(op_.getScaleB())});
  }

  /// Operands as 32-bit registers; the result comes as a struct.
  Value mma_sync() {
    const bool bf16 = atom_.operand == "bf16";
    SmallVector<Value> arguments;
    for (const Value operand : {op_.getA(), op_.getB()})
      for (int64_t i = 0; i < cast<VectorType>(operand.getType()).getNumElements(); i += 2) {
        const Value pair = vector::ExtractStridedSliceOp::create(b_, loc_, operand, ArrayRef<int64_t>{i}, ArrayRef<int64_t>{2},
                                                                 ArrayRef<int64_t>{1});
        arguments.push_back(bf16 ? bits(pair, b_.getI32Type()) : pair);
      }
    const Type f32 = b_.getF32Type();
    for (int64_t i = 0; i < 4; i++) arguments.push_back(vector::ExtractOp::create(b_, loc_, op_.getC(), i));
    const Value made = intrinsic(LLVM::LLVMStructType::getLiteral(b_.getContext(), {f32, f32, f32, f32}), arguments);
    SmallVector<Value> sums;
    for (int64_t i = 0; i < 4; i++) sums.push_back(LLVM::ExtractValueOp::create(b_, loc_, made, ArrayRef<int64_t>{i}));
    return vector::FromElementsOp::create(b_, loc_, op_.getC().getType(), sums);
  }

  MmaOp op_;
  const Atom& atom_;
  OpBuilder b_;
  Location loc_;
};

class LowerMma : public PassWrapper<LowerMma, OperationPass<ModuleOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(LowerMma)
  LowerMma() = default;
  LowerMma(const LowerMma& other) : PassWrapper(other) {}
  explicit LowerMma(const Target& target) { target_ = target.name; }

  StringRef getArgument() const override { return "flight-lower-mma"; }
  StringRef getDescription() const override { return "matrix instructions to the target's"; }
  void getDependentDialects(DialectRegistry& registry) const override {
    registry.insert<arith::ArithDialect, LLVM::LLVMDialect, math::MathDialect, vector::VectorDialect>();
  }
  void runOnOperation() override {
    SmallVector<MmaOp> ops;
    getOperation().walk([&](MmaOp op) { ops.push_back(op); });
    for (MmaOp op : ops) {
      const Atom* atom = find_atom(op.getAtom().str(), target_);
      if (atom == nullptr) {
        op.emitError() << target_ << " has no atom " << op.getAtom() << "; it has " << atom_names(target_);
        return signalPassFailure();
      }
      if (failed(LowerAtom(op, *atom).run())) return signalPassFailure();
    }
  }

 private:
  Option<std::string> target_{*this, "target", llvm::cl::desc("the machine"), llvm::cl::init("gfx942")};
};

}  // namespace

std::unique_ptr<Pass> create_lower_mma(const Target& target) { return std::make_unique<LowerMma>(target); }

}  // namespace jaxator::flight
