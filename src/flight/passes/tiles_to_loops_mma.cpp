/// @file
/// Products of tiles on x86: where the operands are, and where the sums go.
#include "src/flight/passes/tiles.h"
#include "src/flight/passes/tiles_to_loops.h"

namespace jaxator::flight {

using namespace mlir;

namespace {

bool by_rows(ViewOp array) {
  const auto layout = parse_view_layout(array.getResult().getType().getLayout()).layout;
  return layout.count == 2 && layout.leaves[1].stride.is(1) && layout.leaves[0].stride == layout.leaves[1].shape;
}

SmallVector<int64_t> shape_of(ViewOp view) {
  return sizes_of(mode_sizes(parse_view_layout(view.getResult().getType().getLayout()).layout));
}

/// The layout's leaves are those that packing reads at once.
bool in_runs(ViewOp view) {
  const SmallVector<int64_t> shape = shape_of(view);
  const auto runs = [&](int mode) {
    for (int64_t width = 2; width <= 64 && shape[mode] % width == 0; width *= 2)
      if (!has_runs(view, mode, width)) return false;
    return true;
  };
  return shape.size() == 2 && runs(0) && runs(1);
}

Type element_of(Type operand) {
  return isa<TileType>(operand) ? cast<TileType>(operand).getElement() : cast<ViewType>(operand).getElement();
}

}  // namespace

/// The array in which the sums are kept: C's own, if nothing needs its old values.
ViewOp LoopTiles::sums_of(TileMmaOp op) {
  Value c = op.getC();
  ViewOp array = array_of(c);
  if (array && by_rows(array) && llvm::count(op->getOperands(), c) == 1 && last_used_in(c, op)) return array;
  array = new_array(op.getType(), 1);
  fill(c, array);
  return array;
}

FailureOr<BlockedProduct> LoopTiles::blocks_of(TileMmaOp op) const {
  const auto product = product_of(op, "x86-64", op.getA().getType(), op.getB().getType(), op.getC().getType());
  if (failed(product)) return failure();
  return block_product(*product, element_of(op.getA().getType()), vectors_);
}

bool LoopTiles::along_k(Value operand) {
  Facts facts;
  if (isa<TileType>(operand.getType()))
    inspect(operand, {0, 1}, facts);
  else
    facts.views.emplace_back(operand.getDefiningOp<ViewOp>(), SmallVector<int>{0, 1});
  return contiguous_mode(facts, 2) == 1;
}

LogicalResult LoopTiles::mma(TileMmaOp op) {
  const auto blocked = blocks_of(op);
  if (failed(blocked)) return failure();
  ViewOp sums = sums_of(op);
  const auto words_of = [&](Value operand, bool left) {
    if (isa<ViewType>(operand.getType()))
      if (const auto found = packed_shared_.find(operand.getDefiningOp<ViewOp>().getPointer()); found != packed_shared_.end())
        return found->second.words;
    const bool by_k = along_k(operand);
    const Words to = new_words(*blocked, left, by_k, Value());
    ViewOp view = isa<TileType>(operand.getType()) ? ViewOp() : with_runs(operand.getDefiningOp<ViewOp>());
    pack(*blocked, left, to, by_k, [&](Value row, Value k, int mode, int64_t width) {
      const Place place{{row, k}, mode, width, /*multiple=*/width, /*masked=*/true};
      return view ? read(view, place) : evaluate(operand, place);
    });
    return to;
  };
  const Words a = words_of(op.getA(), true), b = words_of(op.getB(), false);
  Packer(b_, loc_, *blocked).multiply(a.at, b.at, sums.getPointer(), b.sums);
  arrays_[op.getResult()] = sums;
  return success();
}

/// The view, or a copy where packing cannot read it.
ViewOp LoopTiles::with_runs(ViewOp view) {
  if (in_runs(view)) return view;
  const SmallVector<int64_t> shape = shape_of(view);
  ViewOp copy = new_memory(view.getResult().getType().getElement(), shape, {shape[1], 1});
  const Nest nest{shape, 1, 1, Value()};
  loops(nest, /*masked=*/false, [&](const Place& place) { write(read(view, place), copy, place); });
  return copy;
}

/// Finds the shared memory that nothing but copies of whole tiles writes and nothing but products read: it holds packed words
/// from the copy on. That saves a pass over the operands, a tenth of the time of a GEMM by tiles of 64 x 64 x 64.
LogicalResult LoopTiles::find_packed_shared() {
  SmallVector<SharedOp> all;
  function_.walk([&](SharedOp shared) { all.push_back(shared); });
  for (SharedOp shared : all) {
    SmallVector<TileCopyOp> copies;
    SmallVector<std::pair<TileMmaOp, bool>> products;
    Type type;
    const bool fits = llvm::all_of(shared->getUsers(), [&](Operation* user) {
      auto view = dyn_cast<ViewOp>(user);
      if (!view || getConstantIntValue(view.getOffset()) != 0 || !view.getDims().empty()) return false;
      if (type && type != view.getResult().getType()) return false;
      type = view.getResult().getType();
      return llvm::all_of(view->getUses(), [&](OpOperand& use) {
        if (auto copy = dyn_cast<TileCopyOp>(use.getOwner()); copy && use.getOperandNumber() == 1) {
          copies.push_back(copy);
          return bool(copy.getSource().getDefiningOp<ViewOp>());
        }
        if (auto product = dyn_cast<TileMmaOp>(use.getOwner()))
          return products.emplace_back(product, use.getOperandNumber() == 0), true;
        return false;
      });
    });
    if (!fits || copies.empty() || products.empty()) continue;
    const bool left = products[0].second, by_k = along_k(copies[0].getSource());
    const auto blocked = blocks_of(products[0].first);
    if (failed(blocked)) return failure();
    const bool same = llvm::all_of(products, [&](const auto& product) {
      if (product.second != left) return false;
      const auto other = blocks_of(product.first);
      return succeeded(other) && *other == *blocked;
    });
    const bool readable = llvm::all_of(copies, [&](TileCopyOp copy) {
      auto from = copy.getSource().getDefiningOp<ViewOp>();
      return in_runs(from) && along_k(from) == by_k &&
             from.getResult().getType().getElement() == cast<ViewType>(type).getElement();
    });
    if (same && readable) packed_shared_[shared] = {*blocked, left, by_k, new_words(*blocked, left, by_k, shared)};
  }
  return success();
}

/// Fills shared memory that holds packed words; false if this one does not.
bool LoopTiles::copy_packed(TileCopyOp op) {
  ViewOp from = op.getSource().getDefiningOp<ViewOp>(), to = op.getDestination().getDefiningOp<ViewOp>();
  if (!to) return false;
  const auto found = packed_shared_.find(to.getPointer());
  if (found == packed_shared_.end()) return false;
  const SmallVector<int64_t> shape = shape_of(from);
  const PackedShared& memory = found->second;
  Facts facts;
  add_bounds(op.getBounds(), shape, facts);
  versions({shape, 1, 1, facts.full}, [&](bool masked) {
    pack(memory.product, memory.left, memory.words, memory.along_k, [&](Value row, Value k, int mode, int64_t width) {
      const Place place{{row, k}, mode, width, /*multiple=*/width, masked};
      return read(from, place, masked ? mask(op.getBounds(), shape, place) : Value());
    });
  });
  return true;
}

void LoopTiles::pack(const BlockedProduct& product, bool left, const Words& to, bool by_k, ReadOperand read) {
  Packer packer(b_, loc_, product);
  if (left)
    packer.rows(to.at, read, by_k);
  else
    packer.panels(to.at, read, by_k, to.sums);
}

/// Memory for the packed words of an operand: that of `owner`, or, if null, of all products.
LoopTiles::Words LoopTiles::new_words(const BlockedProduct& product, bool left, bool by_k, Value owner) {
  const Type word = product.word(b_.getContext());
  if (left) {
    // Rows that are a power of two of bytes apart would all be in one set of the cache.
    const int64_t row = product.groups + 16, column = product.m + 16;
    const Value memory = packed(word, std::max(row * product.m, column * product.groups), 0, owner);
    return {{memory, by_k ? row : 1, by_k ? 1 : column, 0}, Value()};
  }
  const Value memory = packed(word, product.n * product.groups, 1, owner);
  return {{memory, 1, product.panel(), product.panel() * product.groups},
          product.dot == Dot::int8 ? packed(word, product.n, 2, owner) : Value()};
}

Value LoopTiles::packed(Type word, int64_t count, int which, Value owner) {
  SharedOp& memory = packed_[{{word, which}, owner}];
  if (!memory) {
    OpBuilder b = OpBuilder::atBlockBegin(&function_.getBody().front());
    memory =
        SharedOp::create(b, function_.getLoc(), PtrType::get(b.getContext(), word, Space::Shared, 64), b.getI64IntegerAttr(0));
    memory->setAttr("tile", b.getUnitAttr());
  }
  memory.setCount(std::max<int64_t>(memory.getCount(), count));
  return memory.getResult();
}

}  // namespace jaxator::flight
