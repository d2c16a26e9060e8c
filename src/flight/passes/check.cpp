/// @file
/// What a kernel must not do, whatever the target makes of it: let threads race in shared memory, leave threads out of a barrier.
#include "src/flight/passes/interpreter.h"
#include "src/flight/passes/passes.h"
#include "src/flight/passes/uniformity.h"

namespace jaxator::flight {

using namespace mlir;

namespace {

/// What decides whether an op inside of this one is run. Empty: always.
SmallVector<Value> deciders(Operation* op, Region* inside) {
  if (auto branch = dyn_cast<scf::IfOp>(op)) return {branch.getCondition()};
  if (auto loop = dyn_cast<scf::ForOp>(op)) return {loop.getLowerBound(), loop.getUpperBound(), loop.getStep()};
  if (auto loop = dyn_cast<scf::WhileOp>(op)) return {loop.getConditionOp().getCondition()};
  return {};
}

class Check : public PassWrapper<Check, OperationPass<ModuleOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(Check)
  Check() = default;
  Check(const Check& other) : PassWrapper(other) {}
  explicit Check(const Target& target) { target_ = target.name; }
  StringRef getArgument() const override { return "flight-check"; }
  StringRef getDescription() const override {
    return "races in shared memory, barriers that threads miss, lanes that are left out";
  }

  void runOnOperation() override {
    const Target* target = find_target(target_);
    if (target == nullptr) {
      getOperation().emitError() << "target " << target_ << " is not one of " << target_names();
      return signalPassFailure();
    }
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function->hasAttr("flight.block") || failed(check(function, *target))) return signalPassFailure();
  }

 private:
  LogicalResult check(func::FuncOp function, const Target& target) {
    if (failed(check_lanes(function, target)) || failed(check_conditions(function, target))) return failure();
    const std::optional<Conflict> conflict = Interpreter(function).run();
    return conflict ? report(*conflict) : success();
  }

  LogicalResult check_lanes(func::FuncOp function, const Target& target) {
    const auto block = function->getAttrOfType<DenseI64ArrayAttr>("flight.block");
    const int64_t threads = block[0] * block[1] * block[2];
    if (threads % target.wave == 0) return success();
    const auto result = function.walk([&](Operation* op) {
      if (!isa<ShuffleOp, MmaOp>(op)) return WalkResult::advance();
      op->emitError() << op->getName() << " needs whole waves: the block's " << threads << " threads must be a multiple of "
                      << target.wave << " on " << target.name;
      return WalkResult::interrupt();
    });
    return failure(result.wasInterrupted());
  }

  LogicalResult check_conditions(func::FuncOp function, const Target& target) {
    const Uniformity block(function), wave(function, target.wave);
    const auto result = function.walk([&](Operation* op) {
      if (!is_collective(op)) return WalkResult::advance();
      // Lanes exchange values within a wave. On x86 the waves of a block are one loop.
      const bool of_wave = isa<ShuffleOp, MmaOp>(op) && !target.x86();
      for (Operation *inner = op, *outer = op->getParentOp(); outer != function; inner = outer, outer = outer->getParentOp()) {
        for (const Value value : deciders(outer, inner->getParentRegion())) {
          if (!(of_wave ? wave : block).varying(value)) continue;
          InFlightDiagnostic error = op->emitError();
          error << op->getName() << (isa<scf::IfOp>(outer) ? " under a condition" : " in a loop")
                << " that differs between the threads of a " << (of_wave ? "wave" : "block")
                << ": those that do not get here are waited for";
          error.attachNote(outer->getLoc()) << (isa<scf::IfOp>(outer) ? "the condition" : "the loop");
          return WalkResult::interrupt();
        }
      }
      return WalkResult::advance();
    });
    return failure(result.wasInterrupted());
  }

  LogicalResult report(const Conflict& conflict) {
    const auto who = [](int thread) { return thread < 0 ? std::string("another thread") : "thread " + std::to_string(thread); };
    InFlightDiagnostic error = conflict.later->emitError();
    if (conflict.kind == Conflict::unfinished) {
      error << "element " << conflict.element << " of shared memory is used by " << who(conflict.later_thread)
            << " while an asynchronous copy may still write it: `wait` for the copy, then a barrier, must come between";
    } else {
      const bool write = conflict.kind != Conflict::write_read;
      const char* before = conflict.kind == Conflict::read_write ? " has read" : " has written";
      error << who(conflict.later_thread) << (write ? " writes" : " reads") << " element " << conflict.element
            << " of shared memory, which " << who(conflict.earlier_thread) << before << ": a barrier must come between";
    }
    error.attachNote(conflict.earlier->getLoc()) << "the earlier access";
    return error;
  }

  Option<std::string> target_{*this, "target", llvm::cl::desc("the machine"), llvm::cl::init("x86-64")};
};

}  // namespace

std::unique_ptr<Pass> create_check(const Target& target) { return std::make_unique<Check>(target); }

}  // namespace jaxator::flight
