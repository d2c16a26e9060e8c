/// @file
/// The Flight dialect. Flight.td has the ops with their rules.
#pragma once

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "flight/Dialect.h.inc"
#include "flight/Enums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "flight/Attrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "flight/Types.h.inc"
#define GET_OP_CLASSES
#include "flight/Ops.h.inc"
