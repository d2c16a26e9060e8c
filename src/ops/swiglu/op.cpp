/// @file
/// The public functions: check, return early for empty problems, decide, launch.
#include "src/ops/swiglu/config.h"
#include "src/runtime/cpu_kernels.h"

namespace jaxator {

void SwigluDesc::validate() const {
  if (rows < 0) throw Error("rows=" + std::to_string(rows) + ": must not be negative");
  if (columns < 0) throw Error("columns=" + std::to_string(columns) + ": must not be negative");
  if (!(limit > 0)) throw Error("limit=" + std::to_string(limit) + ": must be positive (infinity: none)");
}

void swiglu_forward(const SwigluDesc& desc, const SwigluForwardArgs& args, Executor& executor) {
  desc.validate();
  if (desc.rows == 0 || desc.columns == 0) return;
  cpu_kernels().swiglu_forward(desc, pick_config(desc, cpu_features()), args, executor);
}

void swiglu_backward(const SwigluDesc& desc, const SwigluBackwardArgs& args, Executor& executor) {
  desc.validate();
  if (desc.rows == 0 || desc.columns == 0) return;
  cpu_kernels().swiglu_backward(desc, pick_config(desc, cpu_features()), args, executor);
}

}  // namespace jaxator
