/// @file
/// Printing on x86: one line to standard output by one call of the C library, so that lines of several threads stay whole.
#include "src/flight/passes/passes.h"
#include "src/flight/passes/precompiled.h"

namespace jaxator::flight {

using namespace mlir;

namespace {

/// The text as a format for numbers of 64 bits.
std::string format_of(StringRef text, ValueRange values) {
  std::string format;
  size_t next = 0;
  for (size_t at = 0; at < text.size(); at++) {
    if (text[at] == '{' && at + 1 < text.size() && text[at + 1] == '}') {
      format += isa<FloatType>(values[next++].getType()) ? "%.9g" : "%lld";
      at++;
    } else {
      format += text[at] == '%' ? "%%" : std::string(1, text[at]);
    }
  }
  return format + "\n";
}

class LowerPrint : public PassWrapper<LowerPrint, OperationPass<ModuleOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(LowerPrint)
  StringRef getArgument() const override { return "flight-lower-print"; }
  StringRef getDescription() const override { return "printing on x86"; }
  void getDependentDialects(DialectRegistry& registry) const override {
    registry.insert<arith::ArithDialect, LLVM::LLVMDialect>();
  }

  void runOnOperation() override {
    SmallVector<PrintOp> prints;
    getOperation().walk([&](PrintOp print) { prints.push_back(print); });
    for (PrintOp print : prints) lower(print);
  }

 private:
  void lower(PrintOp print) {
    OpBuilder b(print), top(getOperation().getBodyRegion());
    const Location loc = print.getLoc();
    const auto pointer = LLVM::LLVMPointerType::get(&getContext());
    const auto type = LLVM::LLVMFunctionType::get(b.getI32Type(), {b.getI32Type(), pointer}, /*isVarArg=*/true);
    auto function = getOperation().lookupSymbol<LLVM::LLVMFuncOp>("dprintf");
    if (!function) function = LLVM::LLVMFuncOp::create(top, loc, "dprintf", type);
    const std::string format = format_of(print.getText(), print.getValues()) + '\0';
    const std::string name = "flight_text_" + std::to_string(texts_++);
    LLVM::GlobalOp::create(top, loc, LLVM::LLVMArrayType::get(b.getI8Type(), format.size()), /*isConstant=*/true,
                           LLVM::Linkage::Internal, name, b.getStringAttr(format));
    SmallVector<Value> arguments = {arith::ConstantIntOp::create(b, loc, 1, 32),
                                    LLVM::AddressOfOp::create(b, loc, pointer, name)};
    for (const Value value : print.getValues()) arguments.push_back(widened(b, loc, value));
    LLVM::CallOp::create(b, loc, function, arguments);
    print.erase();
  }

  Value widened(OpBuilder& b, Location loc, Value value) {
    const Type type = value.getType(), i64 = b.getI64Type();
    if (isa<FloatType>(type)) return type.isF64() ? value : Value(arith::ExtFOp::create(b, loc, b.getF64Type(), value));
    if (type.isIndex()) return arith::IndexCastOp::create(b, loc, i64, value);
    if (type == i64) return value;
    return type.isInteger(1) ? Value(arith::ExtUIOp::create(b, loc, i64, value))
                             : Value(arith::ExtSIOp::create(b, loc, i64, value));
  }

  int texts_ = 0;
};

}  // namespace

std::unique_ptr<Pass> create_lower_print() { return std::make_unique<LowerPrint>(); }

}  // namespace jaxator::flight
