#include "src/flight/passes/uniformity.h"

#include "src/flight/passes/precompiled.h"

namespace jaxator::flight {

using namespace mlir;

bool is_collective(Operation* op) {
  return isa<BarrierOp, ShuffleOp, MmaOp, TileLoadOp, TileStoreOp, ReduceOp, RespreadOp, TileCopyOp, TileMmaOp>(op);
}

bool has_collective(Operation* op) {
  return op->walk([](Operation* inner) { return is_collective(inner) ? WalkResult::interrupt() : WalkResult::advance(); })
      .wasInterrupted();
}

namespace {

/// Reads memory and does nothing else. What one address holds is the same for all threads.
bool only_reads(Operation* op) { return isa<LoadOp, LLVM::LoadOp, LLVM::MaskedLoadOp>(op); }

}  // namespace

Uniformity::Uniformity(Operation* function, int64_t wave) : wave_(wave) {
  if (const auto block = function->getAttrOfType<DenseI64ArrayAttr>("flight.block"))
    extents_.assign(block.asArrayRef().begin(), block.asArrayRef().end());
  do {
    changed_ = false;
    function->walk([&](Operation* op) {
      if (op != function) visit(op);
    });
  } while (changed_);
}

bool Uniformity::any(ValueRange values) const {
  return llvm::any_of(values, [&](Value value) { return varying(value); });
}

void Uniformity::mark_all(ValueRange values) {
  for (const Value value : values) mark(value);
}

bool Uniformity::scalar(Operation* op) const {
  if (isa<LLVM::AllocaOp, SharedOp>(op)) return true;
  return !op->walk([&](Operation* inner) {
              bool differs = any(inner->getOperands()) || any(inner->getResults()) || is_collective(inner);
              for (Region& region : inner->getRegions())
                for (Block& block : region) differs |= any(block.getArguments());
              const bool may_run_once = isPure(inner) || only_reads(inner) ||
                                        inner->hasTrait<OpTrait::HasRecursiveMemoryEffects>() ||
                                        inner->hasTrait<OpTrait::IsTerminator>();
              return differs || !may_run_once ? WalkResult::interrupt() : WalkResult::advance();
            }).wasInterrupted();
}

/// Numbers of waves, and questions whether a thread is in the first so many waves: made of the thread's number on x, along which
/// the lanes of a wave are.
bool Uniformity::same_in_wave(Operation* op) const {
  if (wave_ == 0 || extents_.empty()) return false;
  const bool lanes_on_x = extents_[0] % wave_ == 0;
  if (auto thread = dyn_cast<ThreadIdOp>(op)) return thread.getAxis() != Axis::X && lanes_on_x;
  if (!lanes_on_x && extents_[1] * extents_[2] > 1) return false;
  if (op->getNumOperands() != 2) return false;
  Value number = op->getOperand(0);
  while (auto cast = number.getDefiningOp<arith::IndexCastOp>()) number = cast.getIn();
  auto thread = number.getDefiningOp<ThreadIdOp>();
  llvm::APInt by;
  if (!thread || thread.getAxis() != Axis::X || !matchPattern(op->getOperand(1), m_ConstantInt(&by))) return false;
  const bool whole_waves = by.getSExtValue() % wave_ == 0;
  if (isa<arith::DivUIOp, arith::DivSIOp>(op)) return whole_waves;
  if (isa<arith::ShRUIOp>(op)) return (int64_t{1} << by.getZExtValue()) % wave_ == 0;
  auto compared = dyn_cast<arith::CmpIOp>(op);
  if (!compared || !whole_waves) return false;
  using Predicate = arith::CmpIPredicate;
  return llvm::is_contained({Predicate::slt, Predicate::ult, Predicate::sge, Predicate::uge}, compared.getPredicate());
}

void Uniformity::visit(Operation* op) {
  if (same_in_wave(op)) return;
  if (isa<scf::ForOp>(op)) return visit_for(op);
  if (isa<scf::WhileOp>(op)) return visit_while(op);
  if (isa<scf::IfOp>(op)) return visit_if(op);
  if (isa<LLVM::AllocaOp, SharedOp>(op)) return;
  const bool differs = isa<ThreadIdOp, ShuffleOp, MmaOp>(op) || isa<MapOp>(op) || any(op->getOperands()) ||
                       (!isPure(op) && !only_reads(op)) ||
                       llvm::any_of(op->getResultTypes(), [](Type type) { return isa<TileType>(type); });
  if (!differs) return;
  mark_all(op->getResults());
  for (Region& region : op->getRegions())
    for (Block& block : region) mark_all(block.getArguments());
}

void Uniformity::visit_for(Operation* op) {
  auto loop = cast<scf::ForOp>(op);
  const bool bounds = any({loop.getLowerBound(), loop.getUpperBound(), loop.getStep()});
  if (bounds) mark(loop.getInductionVar());
  const ValueRange yielded = loop.getBody()->getTerminator()->getOperands();
  for (unsigned i = 0; i < loop.getNumResults(); i++) {
    if (!bounds && !varying(loop.getInitArgs()[i]) && !varying(yielded[i])) continue;
    mark(loop.getRegionIterArg(i));
    mark(loop.getResult(i));
  }
  if (!has_collective(op) && !scalar(op)) mark_all(op->getResults());
}

void Uniformity::visit_while(Operation* op) {
  auto loop = cast<scf::WhileOp>(op);
  auto condition = loop.getConditionOp();
  const bool differs = varying(condition.getCondition());
  const ValueRange yielded = loop.getYieldOp()->getOperands();
  for (auto [argument, init, next] : llvm::zip(loop.getBeforeArguments(), loop.getInits(), yielded))
    if (varying(init) || varying(next)) mark(argument);
  for (auto [passed, argument, result] : llvm::zip(condition.getArgs(), loop.getAfterArguments(), loop.getResults()))
    if (differs || varying(passed)) mark(argument), mark(result);
  if (!has_collective(op) && !scalar(op)) mark_all(op->getResults());
}

void Uniformity::visit_if(Operation* op) {
  auto branch = cast<scf::IfOp>(op);
  for (unsigned i = 0; i < branch.getNumResults(); i++)
    if (varying(branch.getCondition()) || varying(branch.thenYield().getOperand(i)) || varying(branch.elseYield().getOperand(i)))
      mark(branch.getResult(i));
  if (!has_collective(op) && !scalar(op)) mark_all(op->getResults());
}

}  // namespace jaxator::flight
