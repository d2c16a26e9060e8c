/// @file
/// Which tiles are arrays, and which are computed where they are used.
#include "src/flight/passes/tiles_to_loops.h"

namespace jaxator::flight {

using namespace mlir;

namespace {

bool writes_memory(Operation& op) {
  return op
      .walk([](Operation* inner) {
        return isa<TileStoreOp, TileCopyOp, StoreOp, CopyAsyncOp>(inner) ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

bool written_between(Operation* first, Operation* last) {
  for (Operation* op = first->getNextNode(); op != nullptr && op != last; op = op->getNextNode())
    if (writes_memory(*op)) return true;
  return false;
}

/// Elements are written to where they were read from, or to elsewhere: arrays of a program are the same or apart, so where
/// places, offsets and layouts are equal, no element is overwritten before it is read.
bool reads_in_place(TileLoadOp load, TileStoreOp store) {
  auto from = load.getSource().getDefiningOp<ViewOp>(), to = store.getDestination().getDefiningOp<ViewOp>();
  return from && to && from.getOffset() == to.getOffset() && from.getDims() == to.getDims() &&
         from.getResult().getType().getLayout() == to.getResult().getType().getLayout() &&
         from.getResult().getType().getElement().getIntOrFloatBitWidth() ==
             to.getResult().getType().getElement().getIntOrFloatBitWidth();
}

bool changes_places(Operation* op) { return isa<BroadcastOp, TransposeOp>(op); }

}  // namespace

Operation* Plan::point_of_use(OpOperand& use) const {
  Operation* user = use.getOwner();
  const auto known = points_.find(user);
  return known == points_.end() ? user : known->second;
}

/// The one op where this one's result is needed; null if there are several, or if it would be computed again and again.
Operation* Plan::point_of(Operation* op) const {
  OpOperand* only = nullptr;
  for (const Value result : op->getResults())
    for (OpOperand& use : result.getUses()) {
      if (only != nullptr) return nullptr;
      only = &use;
    }
  if (only == nullptr || isa<BroadcastOp>(only->getOwner())) return nullptr;
  Operation* point = point_of_use(*only);
  if (point == nullptr || point->getBlock() != op->getBlock()) return nullptr;
  auto load = dyn_cast<TileLoadOp>(op);
  if (!load) return point;
  if (written_between(op, point)) return nullptr;
  if (auto store = dyn_cast<TileStoreOp>(point)) {
    for (Operation* at = only->getOwner(); at != point; at = at->getResult(0).use_begin()->getOwner())
      if (changes_places(at)) return nullptr;
    if (!reads_in_place(load, store)) return nullptr;
  }
  return point;
}

Plan::Plan(func::FuncOp function) {
  SmallVector<Operation*> ops;
  function.walk<WalkOrder::PreOrder>([&](Operation* op) { ops.push_back(op); });
  for (Operation* op : llvm::reverse(ops)) {
    if (isa<SplatOp, IotaOp>(op)) points_[op] = nullptr;
    if (isa<BroadcastOp, TransposeOp, RespreadOp>(op)) points_[op] = point_of(op);
    if (isa<TileLoadOp>(op) || (isa<MapOp>(op) && isMemoryEffectFree(op)))
      if (Operation* point = point_of(op)) points_[op] = point;
  }
}

}  // namespace jaxator::flight
