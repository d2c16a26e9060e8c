#include "src/flight/codegen/pipeline.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/IndexToLLVM/IndexToLLVM.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/NVVMToLLVM/NVVMToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/UBToLLVM/UBToLLVM.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/LLVMIR/ROCDLDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/ROCDL/ROCDLToLLVMIRTranslation.h"
#include "mlir/Transforms/Passes.h"
#include "src/flight/passes/passes.h"
#include "src/flight/passes/precompiled.h"

namespace jaxator::flight {

using namespace mlir;

void register_dialects(DialectRegistry& registry) {
  registry.insert<FlightDialect, arith::ArithDialect, cf::ControlFlowDialect, func::FuncDialect, LLVM::LLVMDialect,
                  math::MathDialect, memref::MemRefDialect, NVVM::NVVMDialect, ROCDL::ROCDLDialect, scf::SCFDialect,
                  ub::UBDialect, vector::VectorDialect>();
  registerConvertNVVMToLLVMInterface(registry);
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  registerROCDLDialectTranslation(registry);
  registerNVVMDialectTranslation(registry);
}

void add_passes(PassManager& manager, const Target& target, const Vectors* vectors) {
  manager.addPass(create_check(target));
  if (vectors != nullptr) {
    manager.addPass(createCSEPass());  // equal offsets become one value: then a load and a store at the same place can be told
    manager.addPass(create_tiles_to_loops(*vectors));
    manager.addPass(createCanonicalizerPass());
  } else {
    manager.addPass(create_tiles_to_threads(target));
  }
  manager.addPass(create_lower_mma(target));
  manager.addPass(create_expand_math(target));
  if (target.x86())
    manager.addPass(create_lower_print());
  else
    manager.addPass(create_banks(target));
  manager.addPass(create_lower_views(target));
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
  if (target.x86()) {
    manager.addPass(create_threads_to_loops());
    manager.addPass(createLoopInvariantCodeMotionPass());
  } else {
    manager.addPass(create_narrow_index());
    manager.addPass(create_to_gpu(target));
  }
  manager.addPass(create_unit_vectors());
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());

  arith::ArithExpandOpsPassOptions expand;
  expand.includeBf16 = target.x86();  // an x86 without AVX512-BF16 would call a function of the compiler's run time
  manager.addPass(arith::createArithExpandOpsPass(expand));
  manager.addPass(createSCFToControlFlowPass());
  manager.addPass(memref::createExpandStridedMetadataPass());
  manager.addPass(createConvertVectorToLLVMPass());
  manager.addPass(createConvertMathToLLVMPass());
  manager.addPass(createFinalizeMemRefToLLVMConversionPass());
  manager.addPass(createArithToLLVMConversionPass());
  manager.addPass(createConvertIndexToLLVMPass());
  manager.addPass(createConvertControlFlowToLLVMPass());
  manager.addPass(createUBToLLVMConversionPass());
  if (target.nvidia()) manager.addPass(createConvertNVVMToLLVMPass());
  manager.addPass(createReconcileUnrealizedCastsPass());
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
}

void annotate_loops(ModuleOp module) {
  module.walk([](Operation* op) {
    const auto annotation = op->getAttrOfType<LLVM::LoopAnnotationAttr>("llvm.loop_annotation");
    if (!annotation) return;
    if (auto branch = dyn_cast<LLVM::BrOp>(op)) branch.setLoopAnnotationAttr(annotation);
    if (auto branch = dyn_cast<LLVM::CondBrOp>(op)) branch.setLoopAnnotationAttr(annotation);
  });
}

}  // namespace jaxator::flight
