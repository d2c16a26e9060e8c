#include "src/flight/passes/passes.h"

namespace jaxator::flight {

void register_passes() {
  const Target &x86 = *find_target("x86-64"), &gpu = *find_target("gfx942");
  mlir::registerPass([&] { return create_check(x86); });
  mlir::registerPass([&] { return create_tiles_to_threads(gpu); });
  mlir::registerPass([] { return create_tiles_to_loops({}); });
  mlir::registerPass([&] { return create_expand_math(x86); });
  mlir::registerPass([&] { return create_lower_mma(gpu); });
  mlir::registerPass([&] { return create_lower_views(x86); });
  mlir::registerPass([&] { return create_banks(gpu); });
  mlir::registerPass([] { return create_lower_print(); });
  mlir::registerPass([] { return create_narrow_index(); });
  mlir::registerPass([&] { return create_to_gpu(gpu); });
  mlir::registerPass([] { return create_threads_to_loops(); });
  mlir::registerPass([] { return create_unit_vectors(); });
}

}  // namespace jaxator::flight
