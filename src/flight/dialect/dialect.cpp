#include "src/flight/dialect/dialect.h"

#include "llvm/ADT/TypeSwitch.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

#include "flight/Dialect.cpp.inc"
#include "flight/Enums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "flight/Attrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "flight/Types.cpp.inc"
#define GET_OP_CLASSES
#include "flight/Ops.cpp.inc"
#include "src/flight/dialect/layout.h"

namespace jaxator::flight {

using namespace mlir;

void FlightDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "flight/Attrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "flight/Types.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "flight/Ops.cpp.inc"
      >();
}

namespace {

using Emit = function_ref<InFlightDiagnostic()>;

LogicalResult verify_address(Emit emit, Type element, int64_t align) {
  if (!element.isIntOrFloat() || element.getIntOrFloatBitWidth() % 8 != 0)
    return emit() << "element " << element << " must be a number of whole bytes";
  if (align < 1 || (align & (align - 1)) != 0) return emit() << "alignment " << align << " must be a power of two";
  return success();
}

template <class Parse> LogicalResult verify_layout(Emit emit, StringRef text, Parse parse) {
  try {
    parse();
    return success();
  } catch (const std::invalid_argument& error) {
    return emit() << "layout \"" << text << "\": " << error.what();
  }
}

LogicalResult verify_block(Operation* op, Attribute attribute) {
  const auto block = dyn_cast<DenseI64ArrayAttr>(attribute);
  if (!block || block.size() != 3)
    return op->emitError() << "flight.block " << attribute << " must have the threads on x, y and z";
  int64_t threads = 1;
  for (const int64_t extent : block.asArrayRef()) {
    if (extent < 1 || extent > 1024)
      return op->emitError() << "flight.block " << attribute << ": " << extent << " must be 1 to 1024";
    threads *= extent;
  }
  if (threads > 1024) return op->emitError() << "flight.block " << attribute << ": " << threads << " threads are more than 1024";
  return success();
}

LogicalResult verify_ranges(Operation* op, Attribute attribute) {
  auto function = dyn_cast<FunctionOpInterface>(op);
  const auto ranges = dyn_cast<ArrayAttr>(attribute);
  if (!function || !ranges || ranges.size() != function.getNumArguments())
    return op->emitError() << "flight.ranges must have one entry for each argument of a function";
  for (Attribute entry : ranges) {
    if (isa<UnitAttr>(entry)) continue;
    const auto range = dyn_cast<DenseI64ArrayAttr>(entry);
    if (!range || range.size() != 2 || range[0] > range[1])
      return op->emitError() << "flight.ranges: " << entry << " must be unit or two numbers, the least first";
  }
  return success();
}

}  // namespace

LogicalResult FlightDialect::verifyOperationAttribute(Operation* op, NamedAttribute attribute) {
  const StringRef name = attribute.getName().strref();
  if (name == "flight.block") return verify_block(op, attribute.getValue());
  if (name == "flight.ranges") return verify_ranges(op, attribute.getValue());
  if (name == "flight.allow_spills" || name == "flight.allow_scratch") {
    if (!isa<UnitAttr>(attribute.getValue())) return op->emitError() << name << " takes no value";
    return success();
  }
  // Left by passes for the report.
  if (name == "flight.bank_conflicts" || name == "flight.shared_bytes" || name == "flight.dynamic_shared_bytes") return success();
  return op->emitError() << "attribute " << name
                         << " is not one of flight.block, flight.ranges, flight.allow_spills, flight.allow_scratch";
}

LogicalResult PtrType::verify(Emit emit, Type element, Space, int64_t align) { return verify_address(emit, element, align); }

LogicalResult ViewType::verify(Emit emit, Type element, Space, StringRef layout, int64_t align) {
  if (failed(verify_address(emit, element, align))) return failure();
  return verify_layout(emit, layout, [&] { parse_view_layout(layout); });
}

LogicalResult TileType::verify(Emit emit, Type element, StringRef shape, StringRef spread) {
  if (!element.isIntOrFloat()) return emit() << "element " << element << " must be a number";
  return verify_layout(emit, (shape + " spread " + spread).str(), [&] { parse_tile_layout(shape, spread); });
}

}  // namespace jaxator::flight
