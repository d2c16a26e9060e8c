/// @file
/// Products of tiles on x86: where the operands are, and where the sums go.
#include "src/flight/passes/tiles.h"
#include "src/flight/passes/tiles_pack.h"
#include "src/flight/passes/tiles_to_loops.h"

namespace jaxator::flight {

using namespace mlir;

namespace {

bool by_rows(ViewOp array) {
  const auto layout = parse_view_layout(array.getResult().getType().getLayout()).layout;
  return layout.count == 2 && layout.leaves[1].stride.is(1) && layout.leaves[0].stride == layout.leaves[1].shape;
}

}  // namespace

/// The array in which the sums are kept: C's own, if nothing needs its old values.
ViewOp LoopTiles::sums_of(TileMmaOp op) {
  Value c = op.getC();
  ViewOp array = array_of(c);
  if (array && by_rows(array) && c.hasOneUse() && c.getParentBlock() == op->getBlock()) return array;
  array = new_array(op.getType(), 1);
  fill(c, array);
  return array;
}

LogicalResult LoopTiles::mma(TileMmaOp op) {
  const auto product = product_of(op, "x86-64", op.getA().getType(), op.getB().getType(), op.getC().getType());
  if (failed(product)) return failure();
  const auto read_of = [&](Value operand) {
    ViewOp view = isa<TileType>(operand.getType()) ? ViewOp() : in_runs(operand.getDefiningOp<ViewOp>());
    return [this, operand, view](Value row, Value k, int mode, int64_t width) {
      const Place place{{row, k}, mode, width, /*multiple=*/width, /*masked=*/true};
      return view ? read(view, place) : evaluate(operand, place);
    };
  };
  const auto along_k = [&](Value operand) {
    Facts facts;
    if (isa<TileType>(operand.getType()))
      inspect(operand, {0, 1}, facts);
    else
      facts.views.emplace_back(operand.getDefiningOp<ViewOp>(), SmallVector<int>{0, 1});
    return contiguous_mode(facts, 2) == 1;
  };
  const Type element = isa<TileType>(op.getA().getType()) ? cast<TileType>(op.getA().getType()).getElement()
                                                          : cast<ViewType>(op.getA().getType()).getElement();
  ViewOp sums = sums_of(op);
  const BlockedProduct blocked = block_product(*product, element, vectors_);
  const Type word = blocked.word(b_.getContext());
  const bool a_along_k = along_k(op.getA());
  // Rows that are a power of two of bytes apart would all be in one set of the cache.
  const int64_t row = blocked.groups + 16, column = blocked.m + 16;
  const Packed a{packed(word, std::max(row * blocked.m, column * blocked.groups), 0), a_along_k ? row : 1, a_along_k ? 1 : column,
                 0};
  const Packed b{packed(word, blocked.n * blocked.groups, 1), 1, blocked.panel(), blocked.panel() * blocked.groups};
  const Value bytes = blocked.dot == Dot::int8 ? packed(word, blocked.n, 2) : Value();
  Packer packer(b_, loc_, blocked);
  packer.rows(a, read_of(op.getA()), a_along_k);
  packer.panels(b, read_of(op.getB()), along_k(op.getB()), bytes);
  packer.multiply(a, b, sums.getPointer(), bytes);
  arrays_[op.getResult()] = sums;
  return success();
}

/// The view, or a copy where its layout's leaves are not those that packing reads at once.
ViewOp LoopTiles::in_runs(ViewOp view) {
  const auto type = view.getResult().getType();
  const SmallVector<int64_t> shape = sizes_of(mode_sizes(parse_view_layout(type.getLayout()).layout));
  const auto runs = [&](int mode) {
    for (int64_t width = 2; width <= 64 && shape[mode] % width == 0; width *= 2)
      if (!has_runs(view, mode, width)) return false;
    return true;
  };
  if (runs(0) && runs(1)) return view;
  ViewOp copy = new_memory(type.getElement(), shape, {shape[1], 1});
  const Nest nest{shape, 1, 1, Value()};
  loops(nest, /*masked=*/false, [&](const Place& place) { write(read(view, place), copy, place); });
  return copy;
}

/// Memory for packed operands, the same for all products.
Value LoopTiles::packed(Type word, int64_t count, int which) {
  SharedOp& memory = packed_[{word, which}];
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
