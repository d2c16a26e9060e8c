#include "src/flight/codegen/lines.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "src/flight/codegen/failure.h"

namespace jaxator::flight {

using namespace mlir;

namespace {

FileLineColLoc innermost(Location location) {
  const std::vector<Frame> frames = frames_of(location);
  if (frames.empty()) return FileLineColLoc::get(location.getContext(), "", 0, 0);
  return FileLineColLoc::get(location.getContext(), frames[0].file, unsigned(frames[0].line), unsigned(frames[0].column));
}

}  // namespace

LogicalResult add_line_tables(ModuleOp module) {
  // Also of what is outside of functions, where upstream's pass does not expect a chain.
  module.walk([&](Operation* op) {
    if (!op->getParentOfType<LLVM::LLVMFuncOp>()) op->setLoc(innermost(op->getLoc()));
  });
  for (auto function : module.getOps<LLVM::LLVMFuncOp>()) {
    const FileLineColLoc home = innermost(function.getLoc());
    // A line of another file must be called from this one, or it would be taken for one of this.
    function.getBody().walk([&](Operation* op) {
      const FileLineColLoc line = innermost(op->getLoc());
      const bool here = line.getFilename() == home.getFilename() || line.getLine() == 0;
      op->setLoc(here ? LocationAttr(line.getLine() == 0 ? home : line) : LocationAttr(CallSiteLoc::get(line, home)));
    });
    for (Block& block : function.getBody())
      for (BlockArgument argument : block.getArguments()) argument.setLoc(home);
  }
  PassManager manager(module.getContext());
  LLVM::DIScopeForLLVMFuncOpPassOptions options;
  options.emissionKind = LLVM::DIEmissionKind::LineTablesOnly;
  manager.addPass(LLVM::createDIScopeForLLVMFuncOpPass(options));
  return manager.run(module);
}

}  // namespace jaxator::flight
