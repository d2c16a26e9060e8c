/// @file
/// The public functions: check, return early for empty problems, decide, launch.
#include <cmath>

#include "src/ops/rms_norm/config.h"
#include "src/runtime/cpu_kernels.h"

namespace jaxator {

void RmsNormDesc::validate() const {
  if (rows < 0) throw Error("rows=" + std::to_string(rows) + ": must not be negative");
  if (columns < 0) throw Error("columns=" + std::to_string(columns) + ": must not be negative");
  if (!std::isfinite(epsilon) || epsilon < 0)
    throw Error("epsilon=" + std::to_string(epsilon) + ": must be finite and not negative");
}

int64_t rms_norm_scratch_floats(const RmsNormDesc& desc) {
  if (!desc.has_weight) return 0;
  return pick_config(desc, cpu_features()).backward_tasks * desc.columns;
}

void rms_norm_forward(const RmsNormDesc& desc, const RmsNormForwardArgs& args, Executor& executor) {
  desc.validate();
  if (desc.rows == 0 || desc.columns == 0) return;
  cpu_kernels().rms_norm_forward(desc, pick_config(desc, cpu_features()), args, executor);
}

void rms_norm_backward(const RmsNormDesc& desc, const RmsNormBackwardArgs& args, Executor& executor) {
  desc.validate();
  if (desc.columns == 0) return;
  if (desc.rows == 0) {
    for (int64_t c = 0; desc.has_weight && c < desc.columns; c++) args.dweight[c] = 0;
    return;
  }
  cpu_kernels().rms_norm_backward(desc, pick_config(desc, cpu_features()), args, executor);
}

}  // namespace jaxator
