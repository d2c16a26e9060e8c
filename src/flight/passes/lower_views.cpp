/// @file
/// Views to addresses: loads and stores as wide as contiguity and alignment prove. Pointers become those of the llvm dialect,
/// shared memory becomes variables of the module, or of the block's stack frame on x86.
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "src/flight/passes/lower_accesses.h"
#include "src/flight/passes/passes.h"
#include "src/flight/passes/precompiled.h"

namespace jaxator::flight {

using namespace mlir;

namespace {

unsigned address_space(const Target& target, Space space) {
  if (target.x86()) return 0;
  return space == Space::Global ? 1 : 3;
}

/// Half of what a thread's stack commonly has.
constexpr int64_t kMostTileBytes = 4 << 20;

class LowerViews : public PassWrapper<LowerViews, OperationPass<ModuleOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(LowerViews)
  LowerViews() = default;
  LowerViews(const LowerViews& other) : PassWrapper(other) {}
  explicit LowerViews(const Target& target) { target_ = target.name; }

  StringRef getArgument() const override { return "flight-lower-views"; }
  StringRef getDescription() const override { return "views, loads and stores to addresses"; }
  void getDependentDialects(DialectRegistry& registry) const override {
    registry.insert<arith::ArithDialect, LLVM::LLVMDialect, NVVM::NVVMDialect, scf::SCFDialect, vector::VectorDialect>();
  }

  void runOnOperation() override {
    const Target* target = find_target(target_);
    if (target == nullptr) {
      getOperation().emitError() << "target " << target_ << " is not one of " << target_names();
      return signalPassFailure();
    }
    SmallVector<Operation*> ops;
    getOperation().walk([&](Operation* op) {
      if (isa<LoadOp, StoreOp, CopyAsyncOp, CommitOp, WaitOp, SharedOp>(op)) ops.push_back(op);
    });
    for (Operation* op : ops)
      if (failed(check_views(op))) return signalPassFailure();
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (failed(plan_shared(function, *target))) return signalPassFailure();
    replace_pointers(*target);
    for (Operation* op : ops) {
      lower(op, *target);
      op->erase();
    }
    SmallVector<Operation*> views;
    getOperation().walk([&](ViewOp view) { views.push_back(view); });
    for (Operation* view : llvm::reverse(views)) {
      if (!view->use_empty()) {
        view->emitError("a view is used by an op that is not lowered before it");
        return signalPassFailure();
      }
      view->erase();
    }
  }

 private:
  LogicalResult check_views(Operation* op) {
    for (const Value operand : op->getOperands())
      if (isa<ViewType>(operand.getType()) && !operand.getDefiningOp<ViewOp>())
        return op->emitError("a view that is carried by control flow: carry the offset, and make the view where it is used");
    return success();
  }

  void replace_pointers(const Target& target) {
    AttrTypeReplacer replacer;
    replacer.addReplacement([&](PtrType type) -> Type {
      return LLVM::LLVMPointerType::get(type.getContext(), address_space(target, type.getSpace()));
    });
    // What a pointer's type said of its alignment is kept for the kernel's arguments.
    getOperation().walk([&](func::FuncOp function) {
      for (auto [i, type] : llvm::enumerate(function.getArgumentTypes()))
        if (const auto pointer = dyn_cast<PtrType>(type))
          function.setArgAttr(unsigned(i), LLVM::LLVMDialect::getAlignAttrName(),
                              Builder(&getContext()).getI64IntegerAttr(pointer.getAlign()));
    });
    replacer.recursivelyReplaceElementsIn(getOperation(), /*replaceAttrs=*/true, /*replaceLocs=*/false, /*replaceTypes=*/true);
  }

  void lower(Operation* op, const Target& target) {
    Accesses accesses(op, target);
    if (auto load = dyn_cast<LoadOp>(op)) {
      const auto view = load.getSource().getDefiningOp<ViewOp>();
      const Value value = accesses.load(Elements(load.getSource().getType()), view, cast<VectorType>(load.getType()),
                                        load.getMask(), load.getOther());
      op->replaceAllUsesWith(ValueRange{value});
    } else if (auto store = dyn_cast<StoreOp>(op)) {
      const auto view = store.getDestination().getDefiningOp<ViewOp>();
      accesses.store(Elements(store.getDestination().getType()), view, store.getValue(), store.getMask());
    } else if (auto copy = dyn_cast<CopyAsyncOp>(op)) {
      accesses.copy(Elements(copy.getSource().getType()), copy.getSource().getDefiningOp<ViewOp>(),
                    Elements(copy.getDestination().getType()), copy.getDestination().getDefiningOp<ViewOp>(), copy.getMask(),
                    target.nvidia());
    } else if (isa<SharedOp>(op)) {
      shared(op, target);
    } else if (target.nvidia()) {
      OpBuilder b(op);
      if (auto wait = dyn_cast<WaitOp>(op))
        NVVM::CpAsyncWaitGroupOp::create(b, op->getLoc(), uint32_t(wait.getPending()));
      else
        NVVM::CpAsyncCommitGroupOp::create(b, op->getLoc());
    }
  }

  /// A variable for each array. What is more than 48 KiB on an NVIDIA GPU can only be asked for when the kernel is launched, as
  /// one array.
  void shared(Operation* op, const Target& target) {
    OpBuilder b(op);
    const SharedArray& array = arrays_[op];
    const Type type = op->getResult(0).getType();
    const auto function = op->getParentOfType<func::FuncOp>();
    Value address;
    if (target.x86()) {
      Block& entry = op->getParentOfType<func::FuncOp>().getBody().front();
      b.setInsertionPointToStart(&entry);
      const Value one = LLVM::ConstantOp::create(b, op->getLoc(), b.getI64Type(), b.getI64IntegerAttr(1));
      address = LLVM::AllocaOp::create(b, op->getLoc(), type, array.type, one, unsigned(std::max<int64_t>(array.align, 64)));
    } else if (function->hasAttr("flight.dynamic_shared_bytes")) {
      const Value base = LLVM::AddressOfOp::create(b, op->getLoc(), type, dynamic_array());
      address = LLVM::GEPOp::create(b, op->getLoc(), type, b.getI8Type(), base, ArrayRef<LLVM::GEPArg>{int32_t(array.offset)});
    } else {
      OpBuilder top(getOperation().getBodyRegion());
      const std::string name = ("flight_shared_" + Twine(shared_count_++)).str();
      LLVM::GlobalOp::create(top, op->getLoc(), array.type, /*isConstant=*/false, LLVM::Linkage::Internal, name, Attribute(),
                             uint64_t(array.align), /*addrSpace=*/3);
      address = LLVM::AddressOfOp::create(b, op->getLoc(), type, name);
    }
    op->replaceAllUsesWith(ValueRange{address});
  }

  StringRef dynamic_array() {
    const StringRef name = "flight_dynamic_shared";
    if (!getOperation().lookupSymbol(name)) {
      OpBuilder top(getOperation().getBodyRegion());
      const auto type = LLVM::LLVMArrayType::get(top.getI8Type(), 0);
      LLVM::GlobalOp::create(top, getOperation().getLoc(), type, /*isConstant=*/false, LLVM::Linkage::External, name, Attribute(),
                             1024, 3);
    }
    return name;
  }

  /// Places of a function's arrays, those with the largest alignment first, so that nothing is lost between them.
  LogicalResult plan_shared(func::FuncOp function, const Target& target) {
    SmallVector<SharedOp> ops;
    function.walk([&](SharedOp op) { ops.push_back(op); });
    const auto align = [](SharedOp op) { return std::max<int64_t>(op.getResult().getType().getAlign(), 16); };
    llvm::stable_sort(ops, [&](SharedOp a, SharedOp b) { return align(a) > align(b); });
    int64_t end = 0, tiles = 0;
    for (SharedOp op : ops) {
      const Type element = op.getResult().getType().getElement();
      end = int64_t(llvm::alignTo(uint64_t(end), uint64_t(align(op))));
      arrays_[op] = {LLVM::LLVMArrayType::get(stored_type(element), uint64_t(op.getCount())), align(op), end};
      end += int64_t(op.getCount()) * element.getIntOrFloatBitWidth() / 8;
      // Tiles that are arrays on x86 are not the kernel's shared memory; they and it stand on the stack of a thread.
      if (op->hasAttr("tile")) tiles += int64_t(op.getCount()) * element.getIntOrFloatBitWidth() / 8;
      if (tiles > kMostTileBytes)
        return op.emitError() << "the block's tiles take " << tiles << " bytes, more than " << kMostTileBytes;
      if (end - tiles > target.shared_bytes)
        return op.emitError() << "with this array of " << op.getCount() << " " << element << " the block uses " << end
                              << " bytes of shared memory: " << target.name << " has " << target.shared_bytes;
    }
    Builder b(function.getContext());
    function->setAttr("flight.shared_bytes", b.getI64IntegerAttr(end));
    if (target.nvidia() && end > kMostStaticBytes) function->setAttr("flight.dynamic_shared_bytes", b.getI64IntegerAttr(end));
    return success();
  }

  static constexpr int64_t kMostStaticBytes = 48 << 10;
  struct SharedArray {
    Type type;
    int64_t align = 0, offset = 0;
  };

  Option<std::string> target_{*this, "target", llvm::cl::desc("the machine"), llvm::cl::init("x86-64")};
  DenseMap<Operation*, SharedArray> arrays_;
  int shared_count_ = 0;
};

}  // namespace

std::unique_ptr<Pass> create_lower_views(const Target& target) { return std::make_unique<LowerViews>(target); }

}  // namespace jaxator::flight
