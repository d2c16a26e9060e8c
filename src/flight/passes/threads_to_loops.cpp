/// @file
/// Functions to the form of call_kernel's CPU kernels: void(void* const* arguments, const int64_t* grid, const int64_t* block),
/// called for each block of the grid.
#include "src/flight/passes/lanes.h"
#include "src/flight/passes/passes.h"

namespace jaxator::flight {

using namespace mlir;

namespace {

// XLA's CPU threads have stacks of 8 MiB, of which other frames need little.
constexpr int64_t kMostSlotBytes = 4 << 20;

class Entry {
 public:
  explicit Entry(func::FuncOp function) : function_(function), loc_(function.getLoc()), b_(function.getContext()) {}

  LogicalResult lower() {
    const auto block = function_->getAttrOfType<DenseI64ArrayAttr>("flight.block");
    b_.setInsertionPoint(function_);
    pointer_ = LLVM::LLVMPointerType::get(b_.getContext());
    const Type types[] = {pointer_, pointer_, pointer_};
    const auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b_.getContext()), types);
    auto made = LLVM::LLVMFuncOp::create(b_, loc_, function_.getName(), type);
    for (const NamedAttribute attribute : function_->getDiscardableAttrs())
      made->setAttr(attribute.getName(), attribute.getValue());
    made->removeAttr("flight.ranges");
    b_.setInsertionPointToStart(made.addEntryBlock(b_));
    b_.setInsertionPoint(LLVM::ReturnOp::create(b_, loc_, ValueRange()));
    Lanes lanes(function_, block.asArrayRef(), b_);
    for (auto [i, argument] : llvm::enumerate(function_.getArguments()))
      lanes.map(argument, this->argument(made.getArgument(0), argument, unsigned(i)));
    coordinates<GridDimOp>(lanes, made.getArgument(1));
    coordinates<BlockIdOp>(lanes, made.getArgument(2));
    if (failed(lanes.run())) return failure();
    if (lanes.slot_bytes() > kMostSlotBytes)
      return function_.emitError() << "the threads of a block keep " << lanes.slot_bytes()
                                   << " bytes from barrier to barrier, more than " << kMostSlotBytes << " on x86-64";
    function_.erase();
    return success();
  }

 private:
  Value load(Type type, Value pointer, int64_t index, bool invariant = true) {
    const Value at = LLVM::GEPOp::create(b_, loc_, pointer_, b_.getI64Type(), pointer, ArrayRef<LLVM::GEPArg>{int32_t(index)});
    return LLVM::LoadOp::create(b_, loc_, type, at, 0, false, false, invariant);
  }

  /// The address of an array, or of a scalar's value.
  Value argument(Value arguments, Value old, unsigned i) {
    const Value address = load(pointer_, arguments, i);
    if (isa<LLVM::LLVMPointerType>(old.getType())) return address;
    return LLVM::LoadOp::create(b_, loc_, old.getType(), address, 0, false, false, /*isInvariant=*/true);
  }

  /// Every op of a kind, which is one number for each axis, becomes an argument of the function.
  template <class Op> void coordinates(Lanes& lanes, Value numbers) {
    SmallVector<Op> ops;
    function_.walk([&](Op op) { ops.push_back(op); });
    Value made[3], old[3];
    for (Op op : ops) {
      const int axis = int(op.getAxis());
      if (!made[axis]) {
        made[axis] = arith::IndexCastOp::create(b_, loc_, b_.getIndexType(), load(b_.getI64Type(), numbers, axis));
        old[axis] = function_.getBody().front().addArgument(b_.getIndexType(), loc_);
        lanes.map(old[axis], made[axis]);
      }
      op.getResult().replaceAllUsesWith(old[axis]);
      op.erase();
    }
  }

  func::FuncOp function_;
  Location loc_;
  OpBuilder b_;
  Type pointer_;
};

class ThreadsToLoops : public PassWrapper<ThreadsToLoops, OperationPass<ModuleOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ThreadsToLoops)
  StringRef getArgument() const override { return "flight-threads-to-loops"; }
  StringRef getDescription() const override { return "one block on one CPU thread"; }
  void getDependentDialects(DialectRegistry& registry) const override {
    registry.insert<arith::ArithDialect, LLVM::LLVMDialect, scf::SCFDialect>();
  }
  void runOnOperation() override {
    for (auto function : llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>()))
      if (failed(Entry(function).lower())) return signalPassFailure();
  }
};

}  // namespace

std::unique_ptr<Pass> create_threads_to_loops() { return std::make_unique<ThreadsToLoops>(); }

}  // namespace jaxator::flight
