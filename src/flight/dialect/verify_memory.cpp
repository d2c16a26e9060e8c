/// @file
/// Rules of the ops for one thread: memory, lanes, matrix units.
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "src/flight/dialect/dialect.h"
#include "src/flight/dialect/layout.h"

namespace jaxator::flight {

using namespace mlir;

namespace {

int64_t bytes_of(Type element) { return element.getIntOrFloatBitWidth() / 8; }

/// The elements of a thread's view, which are as many as those of its vector.
LogicalResult verify_vector(Operation* op, ViewType view, Type value, const char* role) {
  const auto vector = cast<VectorType>(value);
  const int64_t size = parse_view_layout(view.getLayout()).static_size();
  if (size == 0) return op->emitOpError() << "layout \"" << view.getLayout() << "\": a thread's view must have a static shape";
  if (vector.getRank() != 1 || vector.isScalable())
    return op->emitOpError() << role << " " << vector << " must have one dimension";
  if (vector.getElementType() != view.getElement())
    return op->emitOpError() << role << " " << vector << " does not have the view's element " << view.getElement();
  if (vector.getNumElements() != size)
    return op->emitOpError() << role << " " << vector << " does not have the " << size << " elements of \"" << view.getLayout()
                             << "\"";
  return success();
}

LogicalResult verify_mask(Operation* op, Value mask, Type value) {
  if (!mask) return success();
  const auto type = cast<VectorType>(mask.getType());
  if (!type.getElementType().isInteger(1) || type.getShape() != cast<VectorType>(value).getShape())
    return op->emitOpError() << "mask " << type << " must be i1, as many as the elements of " << value;
  return success();
}

}  // namespace

LogicalResult SharedOp::verify() {
  const auto type = getResult().getType();
  if (type.getSpace() != Space::Shared) return emitOpError() << "result " << type << " must be in shared memory";
  if (getCount() < 1) return emitOpError() << "count " << getCount() << " must be positive";
  if (getCount() > (int64_t{1} << 32)) return emitOpError() << "count " << getCount() << " is more than any shared memory holds";
  if (type.getAlign() > 1024) return emitOpError() << "alignment " << type.getAlign() << " must be at most 1024";
  return success();
}

LogicalResult ViewOp::verify() {
  const auto pointer = getPointer().getType();
  const auto view = getResult().getType();
  if (pointer.getElement() != view.getElement())
    return emitOpError() << "the pointer's element " << pointer.getElement() << " is not the view's " << view.getElement();
  if (pointer.getSpace() != view.getSpace())
    return emitOpError() << "the pointer is in " << stringifySpace(pointer.getSpace()) << " memory, the view in "
                         << stringifySpace(view.getSpace());
  const int leaves = parse_view_layout(view.getLayout()).dynamic_leaves;
  if (leaves != int(getDims().size()))
    return emitOpError() << "layout \"" << view.getLayout() << "\" has " << leaves << " dynamic leaves, " << getDims().size()
                         << " values are given";
  if (view.getAlign() > pointer.getAlign())
    return emitOpError() << "alignment " << view.getAlign() << " of the view is more than the pointer's " << pointer.getAlign();
  llvm::APInt offset;
  if (matchPattern(getOffset(), m_ConstantInt(&offset)) &&
      offset.getSExtValue() * bytes_of(view.getElement()) % view.getAlign() != 0)
    return emitOpError() << "alignment " << view.getAlign() << " does not divide " << offset.getSExtValue() << " elements of "
                         << view.getElement();
  return success();
}

LogicalResult LoadOp::verify() {
  const Type result = getResult().getType();
  if (failed(verify_vector(*this, getSource().getType(), result, "result")) || failed(verify_mask(*this, getMask(), result)))
    return failure();
  if (!getOther()) return success();
  if (!getMask()) return emitOpError() << "`other` means nothing without a mask";
  const Type other = getOther().getType();
  if (other != result && other != cast<VectorType>(result).getElementType())
    return emitOpError() << "`other` " << other << " must be " << result << " or its element";
  return success();
}

LogicalResult StoreOp::verify() {
  const Type value = getValue().getType();
  if (failed(verify_vector(*this, getDestination().getType(), value, "value"))) return failure();
  return verify_mask(*this, getMask(), value);
}

LogicalResult CopyAsyncOp::verify() {
  const auto source = getSource().getType(), destination = getDestination().getType();
  if (source.getSpace() != Space::Global || destination.getSpace() != Space::Shared)
    return emitOpError() << "copies from global to shared memory, not from " << stringifySpace(source.getSpace()) << " to "
                         << stringifySpace(destination.getSpace());
  if (source.getElement() != destination.getElement())
    return emitOpError() << "elements " << source.getElement() << " and " << destination.getElement() << " differ";
  const int64_t from = parse_view_layout(source.getLayout()).static_size(),
                to = parse_view_layout(destination.getLayout()).static_size();
  if (from == 0 || to == 0) return emitOpError() << "a thread's view must have a static shape";
  if (from != to) return emitOpError() << "copies " << from << " elements to " << to;
  return success();
}

LogicalResult WaitOp::verify() {
  if (getPending() < 0 || getPending() > 63) return emitOpError() << "pending " << getPending() << " must be 0 to 63";
  return success();
}

LogicalResult MmaOp::verify() {
  for (const Value value : {getA(), getB(), getC()})
    if (cast<VectorType>(value.getType()).getRank() != 1)
      return emitOpError() << "operand " << value.getType() << " must have one dimension";
  return success();
}

LogicalResult PrintOp::verify() {
  size_t holes = 0;
  for (size_t at = 0; (at = getText().find("{}", at)) != StringRef::npos; at += 2) holes++;
  if (holes != getValues().size())
    return emitOpError() << "the text has " << holes << " {}, " << getValues().size() << " values are given";
  return success();
}

}  // namespace jaxator::flight
