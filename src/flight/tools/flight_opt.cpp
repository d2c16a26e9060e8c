/// @file
/// jaxator-flight-opt: single passes on text, for tests.
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/LLVMIR/ROCDLDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "src/flight/passes/passes.h"
#include "src/flight/passes/precompiled.h"

int main(int argc, char** argv) {
  using namespace mlir;
  jaxator::flight::register_passes();
  registerCanonicalizerPass();
  registerCSEPass();
  DialectRegistry registry;
  registry.insert<jaxator::flight::FlightDialect, arith::ArithDialect, cf::ControlFlowDialect, func::FuncDialect,
                  LLVM::LLVMDialect, math::MathDialect, memref::MemRefDialect, NVVM::NVVMDialect, ROCDL::ROCDLDialect,
                  scf::SCFDialect, ub::UBDialect, vector::VectorDialect>();
  return asMainReturnCode(MlirOptMain(argc, argv, "Flight's passes\n", registry));
}
