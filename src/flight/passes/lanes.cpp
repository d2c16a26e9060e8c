#include "src/flight/passes/lanes.h"

#include "src/flight/target.h"

namespace jaxator::flight {

using namespace mlir;

namespace {

constexpr int64_t kRolledLanes = 32;

LLVM::LoopAnnotationAttr not_unrolled(OpBuilder& b) {
  MLIRContext* context = b.getContext();
  const auto unroll =
      LLVM::LoopUnrollAttr::get(context, b.getBoolAttr(true), nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
  return LLVM::LoopAnnotationAttr::get(context, nullptr, nullptr, nullptr, unroll, nullptr, nullptr, nullptr, nullptr, nullptr,
                                       nullptr, nullptr, nullptr, nullptr, nullptr, {});
}

}  // namespace

Lanes::Lanes(func::FuncOp function, ArrayRef<int64_t> extents, OpBuilder& builder)
    : function_(function),
      threads_(extents[0] * extents[1] * extents[2]),
      b_(builder),
      entry_(builder.getBlock(), builder.getBlock()->begin()),
      loc_(function.getLoc()),
      uniformity_(function) {
  std::copy(extents.begin(), extents.end(), extents_);
}

Value Lanes::constant(int64_t number) { return arith::ConstantIndexOp::create(b_, loc_, number); }

Lanes::Slot Lanes::slot(Value old) {
  Slot& slot = slots_[old];
  if (slot.address) return slot;
  const Type type = old.getType();
  slot.stored = type;
  if (type.isIndex()) slot.stored = entry_.getI64Type();
  if (isa<FloatType>(type) && type.getIntOrFloatBitWidth() == 8) slot.stored = entry_.getI8Type();
  if (auto vector = dyn_cast<VectorType>(type)) {
    const Type element = vector.getElementType();
    if (element.isIndex()) slot.stored = vector.clone(entry_.getI64Type());
    if (isa<FloatType>(element) && element.getIntOrFloatBitWidth() == 8) slot.stored = vector.clone(entry_.getI8Type());
    slot_bytes_ += threads_ * vector.getNumElements() * (element.isIndex() ? 8 : (element.getIntOrFloatBitWidth() + 7) / 8);
  } else {
    slot_bytes_ += threads_ * (type.isIntOrFloat() ? (type.getIntOrFloatBitWidth() + 7) / 8 : 8);
  }
  const auto pointer = LLVM::LLVMPointerType::get(entry_.getContext());
  const auto array = LLVM::LLVMArrayType::get(slot.stored, uint64_t(threads_));
  entry_.setInsertionPointToStart(entry_.getBlock());
  const Value one = LLVM::ConstantOp::create(entry_, loc_, entry_.getI64Type(), entry_.getI64IntegerAttr(1));
  slot.address = LLVM::AllocaOp::create(entry_, loc_, pointer, array, one, 64);
  return slot;
}

Value Lanes::at(const Slot& slot, Value lane) {
  const Value number = arith::IndexCastOp::create(b_, loc_, b_.getI64Type(), lane);
  return LLVM::GEPOp::create(b_, loc_, slot.address.getType(), slot.stored, slot.address, ArrayRef<LLVM::GEPArg>{number});
}

Value Lanes::get(Value old, Value lane) {
  const Slot from = slot(old);
  const Value stored = LLVM::LoadOp::create(b_, loc_, from.stored, at(from, lane));
  if (from.stored == old.getType()) return stored;
  if (isa<IndexType>(getElementTypeOrSelf(old.getType()))) return arith::IndexCastOp::create(b_, loc_, old.getType(), stored);
  return arith::BitcastOp::create(b_, loc_, old.getType(), stored);
}

void Lanes::put(Value value, Value old, Value lane) {
  const Slot to = slot(old);
  if (to.stored != old.getType())
    value = isa<IndexType>(getElementTypeOrSelf(old.getType())) ? Value(arith::IndexCastOp::create(b_, loc_, to.stored, value))
                                                                : Value(arith::BitcastOp::create(b_, loc_, to.stored, value));
  LLVM::StoreOp::create(b_, loc_, value, at(to, lane));
}

/// Of a value from outside of the piece, for one lane.
Value Lanes::value_of(Value old, Value lane) { return uniformity_.varying(old) ? get(old, lane) : scalar(old); }

/// LLVM makes vectors of a lane loop and then unrolls the 16 of 256 lanes. A kernel with hundreds of shuffles becomes one block
/// of 18000 instructions that way, whose scheduling takes 10 s. Only loops of few lanes are left to it: their slots may become
/// registers.
template <class Body> void Lanes::for_lanes(Body&& body) {
  auto loop = scf::ForOp::create(b_, loc_, constant(0), constant(threads_), constant(1));
  if (threads_ >= kRolledLanes) loop->setAttr("llvm.loop_annotation", not_unrolled(b_));
  const OpBuilder::InsertionGuard guard(b_);
  b_.setInsertionPointToStart(loop.getBody());
  body(loop.getInductionVar());
}

Value Lanes::thread_id(Axis axis, Value lane) {
  if (extents_[int(axis)] == 1) return constant(0);
  Value number = lane;
  for (int i = 0; i < int(axis); i++)
    if (extents_[i] > 1) number = arith::DivUIOp::create(b_, loc_, number, constant(extents_[i]));
  bool outermost = true;
  for (int i = int(axis) + 1; i < 3; i++) outermost &= extents_[i] == 1;
  return outermost ? number : arith::RemUIOp::create(b_, loc_, number, constant(extents_[int(axis)]));
}

/// The slots of what an op of the piece uses from outside.
void Lanes::load_slots(Operation* op, Value lane, IRMapping& map) {
  const auto in_piece = [&](Operation* inner) {
    for (; inner != nullptr; inner = inner->getParentOp())
      if (llvm::is_contained(piece_, inner)) return true;
    return false;
  };
  op->walk([&](Operation* inner) {
    for (Value value : inner->getOperands())
      if (uniformity_.varying(value) && !map.contains(value) && !in_piece(value.getParentBlock()->getParentOp()) &&
          !(value.getDefiningOp() && in_piece(value.getDefiningOp())))
        map.map(value, get(value, lane));
  });
}

void Lanes::flush() {
  if (piece_.empty()) return;
  for_lanes([&](Value lane) {
    IRMapping map = uniform_;
    for (Operation* op : piece_) {
      if (auto thread = dyn_cast<ThreadIdOp>(op)) {
        map.map(thread.getResult(), thread_id(thread.getAxis(), lane));
        continue;
      }
      load_slots(op, lane, map);
      Operation* made = b_.clone(*op, map);
      SmallVector<ThreadIdOp> inner;
      made->walk([&](ThreadIdOp thread) { inner.push_back(thread); });
      for (ThreadIdOp thread : inner) {
        const OpBuilder::InsertionGuard guard(b_);
        b_.setInsertionPoint(thread);
        thread.getResult().replaceAllUsesWith(thread_id(thread.getAxis(), lane));
        thread.erase();
      }
    }
    const auto outside = [&](Operation* user) {
      for (; user != nullptr; user = user->getParentOp())
        if (llvm::is_contained(piece_, user)) return false;
      return true;
    };
    for (Operation* op : piece_)
      for (const Value result : op->getResults())
        if (llvm::any_of(result.getUsers(), outside)) put(map.lookup(result), result, lane);
  });
  piece_.clear();
}

/// Values to slots, lane by lane; all of a lane are read before any is written, so values may trade places.
void Lanes::copy(ValueRange from, ValueRange to) {
  SmallVector<std::pair<Value, Value>> moves;
  for (auto [source, destination] : llvm::zip(from, to))
    if (uniformity_.varying(destination)) moves.emplace_back(source, destination);
  if (moves.empty()) return;
  for_lanes([&](Value lane) {
    SmallVector<Value> values;
    for (const auto& [source, destination] : moves) values.push_back(value_of(source, lane));
    for (const auto& [move, value] : llvm::zip(moves, values)) put(value, move.second, lane);
  });
}

LogicalResult Lanes::require_uniform(Operation* op, ValueRange values, const char* what) {
  for (const Value value : values)
    if (uniformity_.varying(value)) return op->emitError() << what;
  return success();
}

LogicalResult Lanes::run() {
  if (threads_ > 1) return run(&function_.getBody().front());
  run_only_thread();
  return success();
}

/// Of a block of one thread, nothing has to be split.
void Lanes::run_only_thread() {
  function_.walk([&](Operation* op) {
    b_.setInsertionPoint(op);
    if (isa<ThreadIdOp>(op)) op->replaceAllUsesWith(ValueRange{constant(0)});
    if (auto shuffle = dyn_cast<ShuffleOp>(op)) op->replaceAllUsesWith(ValueRange{shuffle.getValue()});
    if (isa<ThreadIdOp, ShuffleOp, BarrierOp>(op)) op->erase();
  });
  b_.setInsertionPoint(entry_.getBlock()->getTerminator());
  for (Operation& op : function_.getBody().front().without_terminator()) b_.clone(op, uniform_);
}

LogicalResult Lanes::run(Block* body) {
  for (Operation& op : body->without_terminator()) {
    if (uniformity_.scalar(&op)) {
      // What lanes of the piece have written may be read by it.
      if (!isPure(&op)) flush();
      b_.clone(op, uniform_);
    } else if (has_collective(&op)) {
      flush();
      if (failed(collective(&op))) return failure();
    } else {
      piece_.push_back(&op);
    }
  }
  flush();
  return success();
}

LogicalResult Lanes::collective(Operation* op) {
  if (isa<BarrierOp>(op)) return success();
  if (auto inner = dyn_cast<ShuffleOp>(op)) return shuffle(inner), success();
  if (auto inner = dyn_cast<scf::ForOp>(op)) return loop(inner);
  if (auto inner = dyn_cast<scf::WhileOp>(op)) return loop(inner);
  if (auto inner = dyn_cast<scf::IfOp>(op)) return branch(inner);
  return op->emitError() << op->getName() << " is not available on x86-64 in code that names threads";
}

void Lanes::shuffle(ShuffleOp op) {
  const int64_t wave = find_target("x86-64")->wave;
  const Value value = op.getValue();
  if (!uniformity_.varying(value)) {
    for_lanes([&](Value lane) { put(scalar(value), op.getResult(), lane); });
    return;
  }
  for_lanes([&](Value lane) {
    const Value own = arith::RemUIOp::create(b_, loc_, lane, constant(wave));
    const Value first = arith::SubIOp::create(b_, loc_, lane, own);
    const Value amount = arith::IndexCastOp::create(b_, loc_, b_.getIndexType(), value_of(op.getAmount(), lane));
    Value source;
    switch (op.getMove()) {
      case LaneMove::Xor:
        source = arith::XOrIOp::create(b_, loc_, own, amount);
        break;
      case LaneMove::Up:
        source = arith::SubIOp::create(b_, loc_, own, amount);
        break;
      case LaneMove::Down:
        source = arith::AddIOp::create(b_, loc_, own, amount);
        break;
      case LaneMove::Index:
        source = amount;
        break;
    }
    const Value inside = arith::CmpIOp::create(b_, loc_, arith::CmpIPredicate::ult, source, constant(wave));
    source = arith::SelectOp::create(b_, loc_, inside, source, own);
    put(get(value, arith::AddIOp::create(b_, loc_, first, source)), op.getResult(), lane);
  });
}

LogicalResult Lanes::loop(scf::ForOp op) {
  if (failed(require_uniform(op, {op.getLowerBound(), op.getUpperBound(), op.getStep()},
                             "a barrier, shuffle or matrix instruction in a loop whose bounds differ between threads")))
    return failure();
  SmallVector<Value> inits, next;
  SmallVector<unsigned> scalars;
  for (unsigned i = 0; i < op.getNumResults(); i++) {
    if (uniformity_.varying(op.getResult(i))) {
      slots_[op.getResult(i)] = slot(op.getRegionIterArg(i));
    } else {
      scalars.push_back(i);
      inits.push_back(scalar(op.getInitArgs()[i]));
    }
  }
  copy(op.getInitArgs(), op.getRegionIterArgs());
  auto made =
      scf::ForOp::create(b_, op.getLoc(), scalar(op.getLowerBound()), scalar(op.getUpperBound()), scalar(op.getStep()), inits);
  map(op.getInductionVar(), made.getInductionVar());
  for (auto [k, i] : llvm::enumerate(scalars)) {
    map(op.getRegionIterArg(i), made.getRegionIterArg(unsigned(k)));
    map(op.getResult(i), made.getResult(unsigned(k)));
  }
  const OpBuilder::InsertionGuard guard(b_);
  b_.setInsertionPointToStart(made.getBody());
  if (failed(run(op.getBody()))) return failure();
  const ValueRange yielded = op.getBody()->getTerminator()->getOperands();
  copy(yielded, op.getRegionIterArgs());
  for (const unsigned i : scalars) next.push_back(scalar(yielded[i]));
  if (!next.empty()) scf::YieldOp::create(b_, op.getLoc(), next);
  return success();
}

LogicalResult Lanes::loop(scf::WhileOp op) {
  auto condition = op.getConditionOp();
  if (failed(require_uniform(op, condition.getCondition(),
                             "a barrier, shuffle or matrix instruction in a loop whose end differs between threads")))
    return failure();
  const auto uniform_of = [&](ValueRange values, ValueRange decided_by) {
    SmallVector<Value> result;
    for (auto [value, decides] : llvm::zip(values, decided_by))
      if (!uniformity_.varying(decides)) result.push_back(scalar(value));
    return result;
  };
  copy(op.getInits(), op.getBeforeArguments());
  for (auto [argument, result] : llvm::zip(op.getAfterArguments(), op.getResults()))
    if (uniformity_.varying(result)) slots_[result] = slot(argument);
  SmallVector<Type> types;
  for (const Value result : op.getResults())
    if (!uniformity_.varying(result)) types.push_back(result.getType());
  auto made = scf::WhileOp::create(b_, op.getLoc(), types, uniform_of(op.getInits(), op.getBeforeArguments()));
  const auto map_uniform = [&](ValueRange old, ValueRange fresh) {
    size_t k = 0;
    for (const Value value : old)
      if (!uniformity_.varying(value)) map(value, fresh[k++]);
  };
  const OpBuilder::InsertionGuard guard(b_);
  SmallVector<Location> before_locations(made.getInits().size(), op.getLoc()), after_locations(types.size(), op.getLoc());
  Block* before = b_.createBlock(&made.getBefore(), {}, made.getInits().getTypes(), before_locations);
  map_uniform(op.getBeforeArguments(), before->getArguments());
  if (failed(run(op.getBeforeBody()))) return failure();
  copy(condition.getArgs(), op.getAfterArguments());
  scf::ConditionOp::create(b_, op.getLoc(), scalar(condition.getCondition()),
                           uniform_of(condition.getArgs(), op.getAfterArguments()));
  Block* after = b_.createBlock(&made.getAfter(), {}, types, after_locations);
  map_uniform(op.getAfterArguments(), after->getArguments());
  if (failed(run(op.getAfterBody()))) return failure();
  const ValueRange yielded = op.getYieldOp()->getOperands();
  copy(yielded, op.getBeforeArguments());
  scf::YieldOp::create(b_, op.getLoc(), uniform_of(yielded, op.getBeforeArguments()));
  map_uniform(op.getResults(), made.getResults());
  return success();
}

LogicalResult Lanes::branch(scf::IfOp op) {
  if (failed(require_uniform(op, op.getCondition(),
                             "a barrier, shuffle or matrix instruction under a condition that differs between threads")))
    return failure();
  SmallVector<Type> types;
  for (const Value result : op.getResults())
    if (!uniformity_.varying(result)) types.push_back(result.getType());
  const bool has_else = !op.getElseRegion().empty();
  auto made =
      scf::IfOp::create(b_, op.getLoc(), types, scalar(op.getCondition()), /*addThenBlock=*/true, /*addElseBlock=*/has_else);
  const auto side = [&](Region& from, Block* to) -> LogicalResult {
    const OpBuilder::InsertionGuard guard(b_);
    if (!to->empty()) to->getTerminator()->erase();
    b_.setInsertionPointToStart(to);
    if (failed(run(&from.front()))) return failure();
    const ValueRange yielded = from.front().getTerminator()->getOperands();
    copy(yielded, op.getResults());
    SmallVector<Value> values;
    for (auto [value, result] : llvm::zip(yielded, op.getResults()))
      if (!uniformity_.varying(result)) values.push_back(scalar(value));
    scf::YieldOp::create(b_, op.getLoc(), values);
    return success();
  };
  if (failed(side(op.getThenRegion(), made.thenBlock()))) return failure();
  if (has_else && failed(side(op.getElseRegion(), made.elseBlock()))) return failure();
  size_t k = 0;
  for (const Value result : op.getResults())
    if (!uniformity_.varying(result)) map(result, made.getResult(unsigned(k++)));
  return success();
}

}  // namespace jaxator::flight
