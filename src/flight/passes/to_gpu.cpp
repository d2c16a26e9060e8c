/// @file
/// Functions to the kernels of a GPU: coordinates, barriers, lanes as the target's intrinsics.
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/LLVMIR/ROCDLDialect.h"
#include "src/flight/passes/passes.h"
#include "src/flight/passes/precompiled.h"

namespace jaxator::flight {

using namespace mlir;

namespace {

/// One kernel.
class Kernel {
 public:
  Kernel(func::FuncOp function, const Target& target) : function_(function), target_(target), b_(function.getContext()) {
    const auto block = function->getAttrOfType<DenseI64ArrayAttr>("flight.block");
    for (int i = 0; i < 3; i++) block_[i] = int32_t(block[i]);
  }

  LogicalResult lower() {
    SmallVector<Operation*> ops;
    function_.walk([&](Operation* op) {
      if (isa<FlightDialect>(op->getDialect())) ops.push_back(op);
    });
    for (Operation* op : ops)
      if (failed(lower(op))) return failure();
    make_kernel();
    return success();
  }

 private:
  LogicalResult lower(Operation* op) {
    b_.setInsertionPoint(op);
    loc_ = op->getLoc();
    Value value;
    if (auto thread = dyn_cast<ThreadIdOp>(op)) {
      value = index(thread_id(thread.getAxis()));
    } else if (auto block = dyn_cast<BlockIdOp>(op)) {
      value = index(block_id(block.getAxis()));
    } else if (auto grid = dyn_cast<GridDimOp>(op)) {
      value = index(grid_dim(grid.getAxis()));
    } else if (auto shuffle = dyn_cast<ShuffleOp>(op)) {
      value = this->shuffle(shuffle);
    } else if (isa<BarrierOp>(op)) {
      barrier();
    } else {
      return op->emitError() << op->getName() << " is not available on " << target_.name;
    }
    if (value) op->replaceAllUsesWith(ValueRange{value});
    op->erase();
    return success();
  }

  Value index(Value number) { return arith::IndexCastUIOp::create(b_, *loc_, b_.getIndexType(), number); }
  Value constant(int64_t number) { return arith::ConstantIntOp::create(b_, *loc_, number, 32); }

  template <class X, class Y, class Z> Value coordinate(Axis axis, LLVM::ConstantRangeAttr range = nullptr) {
    const Type i32 = b_.getI32Type();
    if (axis == Axis::X) return X::create(b_, *loc_, i32, range);
    if (axis == Axis::Y) return Y::create(b_, *loc_, i32, range);
    return Z::create(b_, *loc_, i32, range);
  }

  Value thread_id(Axis axis) {
    const int32_t extent = block_[int(axis)];
    if (extent == 1) return constant(0);
    const auto range = LLVM::ConstantRangeAttr::get(b_.getContext(), 32, 0, extent);
    return target_.cdna() ? coordinate<ROCDL::ThreadIdXOp, ROCDL::ThreadIdYOp, ROCDL::ThreadIdZOp>(axis, range)
                          : coordinate<NVVM::ThreadIdXOp, NVVM::ThreadIdYOp, NVVM::ThreadIdZOp>(axis, range);
  }
  Value block_id(Axis axis) {
    return target_.cdna() ? coordinate<ROCDL::BlockIdXOp, ROCDL::BlockIdYOp, ROCDL::BlockIdZOp>(axis)
                          : coordinate<NVVM::BlockIdXOp, NVVM::BlockIdYOp, NVVM::BlockIdZOp>(axis);
  }
  Value grid_dim(Axis axis) {
    if (target_.nvidia()) return coordinate<NVVM::GridDimXOp, NVVM::GridDimYOp, NVVM::GridDimZOp>(axis);
    // The first three numbers of the hidden arguments of code object version 5.
    const auto pointer = LLVM::LLVMPointerType::get(b_.getContext(), 4);
    const Value hidden = intrinsic("llvm.amdgcn.implicitarg.ptr", pointer, {});
    const Value at = LLVM::GEPOp::create(b_, *loc_, pointer, b_.getI8Type(), hidden, ArrayRef<LLVM::GEPArg>{int32_t(axis) * 4});
    return LLVM::LoadOp::create(b_, *loc_, b_.getI32Type(), at, 4, false, false, /*isInvariant=*/true);
  }

  Value intrinsic(StringRef name, Type result, ValueRange arguments) {
    return LLVM::CallIntrinsicOp::create(b_, *loc_, result, b_.getStringAttr(name), arguments).getResult(0);
  }

  void barrier() {
    if (target_.nvidia()) return void(NVVM::Barrier0Op::create(b_, *loc_));
    const StringRef scope = "workgroup";
    LLVM::FenceOp::create(b_, *loc_, LLVM::AtomicOrdering::release, scope);
    ROCDL::SBarrierOp::create(b_, *loc_);
    LLVM::FenceOp::create(b_, *loc_, LLVM::AtomicOrdering::acquire, scope);
  }

  Value lane() {
    if (target_.nvidia()) return NVVM::LaneIdOp::create(b_, *loc_, b_.getI32Type());
    const Value low = intrinsic("llvm.amdgcn.mbcnt.lo", b_.getI32Type(), {constant(-1), constant(0)});
    return intrinsic("llvm.amdgcn.mbcnt.hi", b_.getI32Type(), {constant(-1), low});
  }

  /// The lane that the value comes from; the own one where that is outside the wave.
  Value source_lane(ShuffleOp op) {
    const Value amount = op.getAmount(), own = lane();
    Value source;
    switch (op.getMove()) {
      case LaneMove::Xor:
        source = arith::XOrIOp::create(b_, *loc_, own, amount);
        break;
      case LaneMove::Up:
        source = arith::SubIOp::create(b_, *loc_, own, amount);
        break;
      case LaneMove::Down:
        source = arith::AddIOp::create(b_, *loc_, own, amount);
        break;
      case LaneMove::Index:
        source = amount;
        break;
    }
    const Value inside = arith::CmpIOp::create(b_, *loc_, arith::CmpIPredicate::ult, source, constant(target_.wave));
    return arith::SelectOp::create(b_, *loc_, inside, source, own);
  }

  Value shuffle(ShuffleOp op) {
    const Type type = op.getValue().getType(), i32 = b_.getI32Type();
    Value value = op.getValue();
    if (type != i32) value = arith::BitcastOp::create(b_, *loc_, i32, value);
    const Value source = source_lane(op);
    if (target_.cdna()) {
      const Value byte = arith::ShLIOp::create(b_, *loc_, source, constant(2));
      value = ROCDL::DsBpermuteOp::create(b_, *loc_, i32, byte, value);
    } else {
      value = NVVM::ShflOp::create(b_, *loc_, i32, constant(-1), value, source, constant(31), NVVM::ShflKind::idx, nullptr);
    }
    return type == i32 ? value : arith::BitcastOp::create(b_, *loc_, type, value);
  }

  void make_kernel() {
    MLIRContext* context = b_.getContext();
    b_.setInsertionPoint(function_);
    const auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context), function_.getArgumentTypes());
    auto kernel = LLVM::LLVMFuncOp::create(b_, function_.getLoc(), function_.getName(), type);
    for (unsigned i = 0; i < function_.getNumArguments(); i++)
      if (const auto attributes = function_.getArgAttrDict(i)) kernel.setArgAttrs(i, attributes);
    for (const NamedAttribute attribute : function_->getDiscardableAttrs())
      kernel->setAttr(attribute.getName(), attribute.getValue());
    kernel.getBody().takeBody(function_.getBody());
    kernel.walk([&](func::ReturnOp op) {
      OpBuilder b(op);
      LLVM::ReturnOp::create(b, op.getLoc(), ValueRange());
      op.erase();
    });
    const int32_t threads = block_[0] * block_[1] * block_[2];
    const auto extents = b_.getDenseI32ArrayAttr(block_);
    if (target_.cdna()) {
      kernel->setAttr(ROCDL::ROCDLDialect::getKernelFuncAttrName(), b_.getUnitAttr());
      kernel->setAttr("rocdl.reqd_work_group_size", extents);
      kernel->setAttr("rocdl.flat_work_group_size", b_.getStringAttr(Twine(threads) + "," + Twine(threads)));
    } else {
      kernel->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(), b_.getUnitAttr());
      kernel->setAttr(NVVM::NVVMDialect::getReqntidAttrName(), extents);
    }
    function_.erase();
  }

  func::FuncOp function_;
  const Target& target_;
  OpBuilder b_;
  std::optional<Location> loc_;
  int32_t block_[3];
};

class ToGpu : public PassWrapper<ToGpu, OperationPass<ModuleOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ToGpu)
  ToGpu() = default;
  ToGpu(const ToGpu& other) : PassWrapper(other) {}
  explicit ToGpu(const Target& target) { target_ = target.name; }

  StringRef getArgument() const override { return "flight-to-gpu"; }
  StringRef getDescription() const override { return "functions to the kernels of a GPU"; }
  void getDependentDialects(DialectRegistry& registry) const override {
    registry.insert<arith::ArithDialect, LLVM::LLVMDialect, NVVM::NVVMDialect, ROCDL::ROCDLDialect>();
  }
  void runOnOperation() override {
    const Target* target = find_target(target_);
    if (target == nullptr || target->x86()) {
      getOperation().emitError() << "target " << target_ << " is not a GPU";
      return signalPassFailure();
    }
    for (auto function : llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>()))
      if (failed(Kernel(function, *target).lower())) return signalPassFailure();
  }

 private:
  Option<std::string> target_{*this, "target", llvm::cl::desc("the machine"), llvm::cl::init("gfx942")};
};

}  // namespace

std::unique_ptr<Pass> create_to_gpu(const Target& target) { return std::make_unique<ToGpu>(target); }

}  // namespace jaxator::flight
