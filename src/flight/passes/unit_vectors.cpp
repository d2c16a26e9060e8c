/// @file
/// Vectors of one element to scalars. A thread that has one value of a tile has it as a vector of one element; LLVM's backends
/// are tried little on those (22.1 combines `<1 x i32>` conversions for ever on AMD's), and its vectoriser takes no loop that has
/// one.
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "src/flight/passes/passes.h"
#include "src/flight/passes/precompiled.h"

namespace jaxator::flight {

using namespace mlir;

namespace {

VectorType unit_type(Type type) {
  const auto vector = dyn_cast<VectorType>(type);
  return vector && vector.getRank() == 1 && vector.getNumElements() == 1 && !vector.isScalable() ? vector : nullptr;
}
bool is_unit(Value value) { return bool(unit_type(value.getType())); }

/// Makes what it meets scalar, and gives the users that come later the vector again by a broadcast, which they look through.
class UnitVectors {
 public:
  explicit UnitVectors(MLIRContext* context) : b_(context) {}

  void rewrite(Operation* op) {
    for (Region& region : op->getRegions())
      for (Block& block : region)
        for (BlockArgument argument : block.getArguments()) {
          b_.setInsertionPointToStart(&block);
          retype(argument);
        }
    if (!llvm::any_of(op->getOperands(), is_unit) && !llvm::any_of(op->getResults(), is_unit)) return;
    b_.setInsertionPoint(op);
    if (isa<LLVM::MaskedLoadOp, LLVM::MaskedStoreOp>(op)) return masked(op);
    if (isa<vector::VectorDialect>(op->getDialect())) return vector_op(op);
    if (!OpTrait::hasElementwiseMappableTraits(op) && !moves_values(op)) return;
    for (OpOperand& operand : op->getOpOperands())
      if (is_unit(operand.get())) operand.set(scalar(operand.get()));
    for (Value result : op->getResults()) {
      b_.setInsertionPointAfter(op);
      retype(result);
    }
  }

 private:
  /// Ops whose operands and results are of any type. Types that arguments of blocks have are those of the branches to them.
  static bool moves_values(Operation* op) {
    return isa<LLVM::LoadOp, LLVM::StoreOp, scf::ForOp, scf::IfOp, scf::WhileOp, scf::ExecuteRegionOp, scf::YieldOp,
               scf::ConditionOp, cf::BranchOp, cf::CondBranchOp>(op);
  }

  Value scalar(Value value) {
    if (auto broadcast = value.getDefiningOp<vector::BroadcastOp>(); broadcast && !isa<VectorType>(broadcast.getSourceType()))
      return broadcast.getSource();
    return vector::ExtractOp::create(b_, value.getLoc(), value, 0);
  }
  Value scalar_or_same(Value value) { return is_unit(value) ? scalar(value) : value; }
  Value unit(Location loc, Value scalar) {
    return vector::BroadcastOp::create(b_, loc, VectorType::get({1}, scalar.getType()), scalar);
  }

  /// At the insertion point, which is right after the value's definition.
  void retype(Value value) {
    const VectorType type = unit_type(value.getType());
    if (!type) return;
    value.setType(type.getElementType());
    const Value again = unit(value.getLoc(), value);
    value.replaceAllUsesExcept(again, again.getDefiningOp());
  }

  void replace(Operation* op, Value value) {
    if (value.getType() != op->getResult(0).getType()) value = unit(op->getLoc(), value);
    op->getResult(0).replaceAllUsesWith(value);
    op->erase();
  }

  void masked(Operation* op) {
    const Location loc = op->getLoc();
    if (auto store = dyn_cast<LLVM::MaskedStoreOp>(op)) {
      const Value value = scalar(store.getValue());
      auto branch = scf::IfOp::create(b_, loc, scalar(store.getMask()), /*withElseRegion=*/false);
      b_.setInsertionPointToStart(branch.thenBlock());
      LLVM::StoreOp::create(b_, loc, value, store.getData(), store.getAlignment());
      return op->erase();
    }
    auto load = cast<LLVM::MaskedLoadOp>(op);
    const Type type = unit_type(load.getType()).getElementType();
    const Value otherwise = load.getPassThru() ? scalar(load.getPassThru()) : zero(loc, type);
    auto branch = scf::IfOp::create(b_, loc, type, scalar(load.getMask()), /*withElseRegion=*/true);
    b_.setInsertionPointToStart(branch.thenBlock());
    scf::YieldOp::create(b_, loc, Value(LLVM::LoadOp::create(b_, loc, type, load.getData(), load.getAlignment())));
    b_.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(b_, loc, otherwise);
    b_.setInsertionPointAfter(branch);
    replace(op, branch.getResult(0));
  }

  Value zero(Location loc, Type type) { return arith::ConstantOp::create(b_, loc, b_.getZeroAttr(type)); }

  void vector_op(Operation* op) {
    const Location loc = op->getLoc();
    if (auto extract = dyn_cast<vector::ExtractOp>(op); extract && !isa<VectorType>(extract.getType())) {
      if (extract.getSource().getDefiningOp<vector::BroadcastOp>()) replace(op, scalar(extract.getSource()));
    } else if (auto insert = dyn_cast<vector::InsertOp>(op); insert && !is_unit(insert.getValueToStore())) {
      replace(op, insert.getValueToStore());
    } else if (auto elements = dyn_cast<vector::FromElementsOp>(op)) {
      replace(op, elements.getElements()[0]);
    } else if (auto broadcast = dyn_cast<vector::BroadcastOp>(op); broadcast && is_unit(broadcast.getSource())) {
      broadcast.getSourceMutable().set(scalar(broadcast.getSource()));
    } else if (auto slice = dyn_cast<vector::ExtractStridedSliceOp>(op)) {
      const int64_t at = cast<IntegerAttr>(slice.getOffsets()[0]).getInt();
      replace(op, is_unit(slice.getSource()) ? scalar(slice.getSource())
                                             : Value(vector::ExtractOp::create(b_, loc, slice.getSource(), at)));
    } else if (auto into = dyn_cast<vector::InsertStridedSliceOp>(op); into && is_unit(into.getValueToStore())) {
      const Value value = scalar(into.getValueToStore());
      const int64_t at = cast<IntegerAttr>(into.getOffsets()[0]).getInt();
      replace(op, is_unit(into.getDest()) ? value : Value(vector::InsertOp::create(b_, loc, value, into.getDest(), at)));
    } else if (auto shuffle = dyn_cast<vector::ShuffleOp>(op)) {
      replace(op, shuffled(shuffle));
    } else if (auto bits = dyn_cast<vector::BitCastOp>(op)) {
      bitcast(bits);
    }
  }

  /// Element `at` of the two operands together.
  Value element(vector::ShuffleOp op, int64_t at) {
    const int64_t first = op.getV1VectorType().getNumElements();
    const Value source = at < first ? op.getV1() : op.getV2();
    if (is_unit(source)) return scalar(source);
    return vector::ExtractOp::create(b_, op.getLoc(), source, at < first ? at : at - first);
  }

  /// The operand that is the result but for the places which the other one, of one element, gives; none else.
  static Value nearly(vector::ShuffleOp op, Value operand, int64_t first) {
    if (operand.getType() != op.getType()) return nullptr;
    const int64_t count = cast<VectorType>(operand.getType()).getNumElements();
    for (auto [i, at] : llvm::enumerate(op.getMask()))
      if (at >= first && at < first + count && at - first != int64_t(i)) return nullptr;
    return operand;
  }

  Value shuffled(vector::ShuffleOp op) {
    if (is_unit(op.getResult())) return element(op, std::max<int64_t>(op.getMask()[0], 0));
    const int64_t first = op.getV1VectorType().getNumElements();
    Value result = nearly(op, op.getV1(), 0);
    if (!result) result = nearly(op, op.getV2(), first);
    const bool all = !result;
    if (all) result = ub::PoisonOp::create(b_, op.getLoc(), op.getType());
    for (auto [i, at] : llvm::enumerate(op.getMask()))
      if (at >= 0 && (all || is_unit(at < first ? op.getV1() : op.getV2())))
        result = vector::InsertOp::create(b_, op.getLoc(), element(op, at), result, int64_t(i));
    return result;
  }

  void bitcast(vector::BitCastOp op) {
    const Location loc = op.getLoc();
    const Type element = op.getResultVectorType().getElementType();
    const bool to = is_unit(op.getResult()), from = is_unit(op.getSource());
    if (to && from) return replace(op, arith::BitcastOp::create(b_, loc, element, scalar(op.getSource())));
    if (!LLVM::isCompatibleType(op.getSource().getType()) || !LLVM::isCompatibleType(op.getType())) return;
    replace(op, LLVM::BitcastOp::create(b_, loc, to ? element : op.getType(), scalar_or_same(op.getSource())));
  }

  OpBuilder b_;
};

class UnitVectorsPass : public PassWrapper<UnitVectorsPass, OperationPass<ModuleOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(UnitVectorsPass)

  StringRef getArgument() const override { return "flight-unit-vectors"; }
  StringRef getDescription() const override { return "vectors of one element to scalars"; }
  void getDependentDialects(DialectRegistry& registry) const override {
    registry.insert<arith::ArithDialect, LLVM::LLVMDialect, scf::SCFDialect, ub::UBDialect, vector::VectorDialect>();
  }
  void runOnOperation() override {
    SmallVector<Operation*> ops;
    getOperation().walk<WalkOrder::PreOrder>([&](Operation* op) { ops.push_back(op); });
    UnitVectors unit_vectors(&getContext());
    for (Operation* op : ops) unit_vectors.rewrite(op);
  }
};

}  // namespace

std::unique_ptr<Pass> create_unit_vectors() { return std::make_unique<UnitVectorsPass>(); }

}  // namespace jaxator::flight
