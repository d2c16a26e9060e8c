/// @file
/// Bank conflicts of shared memory, by the layout library's phases: the addresses of all threads are known here. Nothing is
/// changed; each access with conflicts becomes a remark, and the function has their sum.
#include "src/layout/banks.h"
#include "src/flight/passes/access.h"
#include "src/flight/passes/interpreter.h"
#include "src/flight/passes/passes.h"

namespace jaxator::flight {

using namespace mlir;

namespace {

layout::Target layout_target(const Target& target) {
  if (target.nvidia()) return layout::Target::sm_90;
  return target.name == StringRef("gfx950") ? layout::Target::gfx950 : layout::Target::gfx942;
}

/// What the accesses of one op take in the memory, the first time that they are run.
struct Passes {
  int64_t needed = 0, taken = 0;  // with and without conflicts of banks
  int64_t width = 0;              // bytes of the widest access
};

Passes count(const AccessSeen& seen, ViewType view, const Target& target) {
  const Elements elements(view);
  Passes sum;
  for (const Piece& piece : split_into_pieces({&elements}, 16, true)) {
    const int width = int(int64_t(piece.size()) * elements.bytes());
    const auto direction = seen.write ? layout::Direction::write : layout::Direction::read;
    const layout::Phases phases = layout::phases(layout_target(target), width, direction);
    sum.width = std::max<int64_t>(sum.width, width);
    for (int64_t first = 0; first < seen.threads; first += phases.lanes) {
      int64_t address[layout::kMaxLanes] = {};
      layout::Phases there = phases;
      const int lanes = int(std::min<int64_t>(phases.lanes, seen.threads - first));
      for (int lane = 0; lane < lanes; lane++) {
        const int64_t at = seen.element(first + lane, piece[0]);
        address[lane] = at * elements.bytes();
        if (at < 0) there.phase_of[lane] = uint8_t(phases.count);  // this lane does not take part
      }
      for (int phase = 0; phase < phases.count; phase++) {
        const int passes = layout::detail::passes_of(there, phase, address, lanes, width);
        sum.needed += passes > 0;
        sum.taken += passes;
      }
    }
  }
  return sum;
}

class Banks : public PassWrapper<Banks, OperationPass<ModuleOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(Banks)
  Banks() = default;
  Banks(const Banks& other) : PassWrapper(other) {}
  explicit Banks(const Target& target) { target_ = target.name; }
  StringRef getArgument() const override { return "flight-banks"; }
  StringRef getDescription() const override { return "reports bank conflicts of shared memory"; }

  void runOnOperation() override {
    const Target* target = find_target(target_);
    if (target == nullptr || target->x86()) {
      getOperation().emitError() << "target " << target_ << " is not a GPU";
      return signalPassFailure();
    }
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (!function->hasAttr("flight.block")) continue;
      int64_t conflicts = 0;
      DenseSet<Operation*> done;
      Interpreter interpreter(function);
      interpreter.on_access([&](const AccessSeen& seen) {
        if (!done.insert(seen.op).second) return;
        const Passes passes = count(seen, seen.view, *target);
        conflicts += passes.taken - passes.needed;
        if (passes.taken > passes.needed)
          seen.op->emitRemark() << (seen.write ? "writes" : "reads") << " of " << passes.width << " bytes a lane take "
                                << passes.taken << " passes of the banks of " << target->name << ", " << passes.needed
                                << " without conflicts";
      });
      interpreter.run();
      function->setAttr("flight.bank_conflicts", Builder(function.getContext()).getI64IntegerAttr(conflicts));
    }
  }

 private:
  Option<std::string> target_{*this, "target", llvm::cl::desc("the machine"), llvm::cl::init("gfx942")};
};

}  // namespace

std::unique_ptr<Pass> create_banks(const Target& target) { return std::make_unique<Banks>(target); }

}  // namespace jaxator::flight
