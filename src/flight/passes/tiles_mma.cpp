#include "src/flight/passes/tiles_mma.h"

#include "src/flight/passes/precompiled.h"
#include "src/flight/passes/tiles.h"

namespace jaxator::flight {

using namespace mlir;

namespace {

Type element_of(Type type) {
  const auto tile = dyn_cast<TileType>(type);
  return tile ? tile.getElement() : cast<ViewType>(type).getElement();
}

SmallVector<int64_t> shape_of(Type type) {
  if (const auto tile = dyn_cast<TileType>(type)) return sizes_of(layout::parse<layout::IntTuple>(tile.getShape().str()));
  return sizes_of(mode_sizes(parse_view_layout(cast<ViewType>(type).getLayout()).layout));
}

std::string name_of(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

bool takes(const Atom& atom, Type element) {
  if (atom.operand == "float") return element.isF32() || element.isF16() || element.isBF16();
  return name_of(element) == atom.operand;
}

}  // namespace

FailureOr<Product> product_of(TileMmaOp op, StringRef target, Type a, Type b, Type c) {
  const Atom* atom = find_atom(op.getAtom().str(), target.str());
  if (atom == nullptr)
    return op.emitError() << target << " has no atom " << op.getAtom() << "; it has " << atom_names(target.str());
  for (const Type operand : {a, b})
    if (const Type element = element_of(operand); !takes(*atom, element))
      return op.emitError() << op.getAtom() << " multiplies " << atom->operand << ", not " << element;
  if (const Type element = element_of(c); name_of(element) != atom->result)
    return op.emitError() << op.getAtom() << " adds up in " << atom->result << ", not " << element;
  return Product{atom, layout::parse<layout::Layout>(op.getWaves().str()), shape_of(c)[0], shape_of(c)[1], shape_of(a)[1]};
}

Value multiply_add(OpBuilder& b, Location loc, Value x, Value y, Value sum) {
  if (isa<FloatType>(getElementTypeOrSelf(sum.getType()))) return math::FmaOp::create(b, loc, x, y, sum);
  return arith::AddIOp::create(b, loc, sum, arith::MulIOp::create(b, loc, x, y));
}

}  // namespace jaxator::flight
