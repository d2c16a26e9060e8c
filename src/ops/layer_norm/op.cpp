/// @file
/// The public functions: check, return early for empty problems, decide, launch.
#include <algorithm>
#include <cmath>

#include "src/ops/layer_norm/config.h"
#include "src/runtime/cpu_kernels.h"

namespace jaxator {

void LayerNormDesc::validate() const {
  if (rows < 0) throw Error("rows=" + std::to_string(rows) + ": must not be negative");
  if (columns < 0) throw Error("columns=" + std::to_string(columns) + ": must not be negative");
  if (!std::isfinite(epsilon) || epsilon < 0)
    throw Error("epsilon=" + std::to_string(epsilon) + ": must be finite and not negative");
}

int64_t layer_norm_scratch_floats(const LayerNormDesc& desc) {
  return pick_config(desc, cpu_features()).backward_tasks * desc.columns * (desc.has_weight + desc.has_bias);
}

void layer_norm_forward(const LayerNormDesc& desc, const LayerNormForwardArgs& args, Executor& executor) {
  desc.validate();
  if (desc.rows == 0 || desc.columns == 0) return;
  cpu_kernels().layer_norm_forward(desc, pick_config(desc, cpu_features()), args, executor);
}

void layer_norm_backward(const LayerNormDesc& desc, const LayerNormBackwardArgs& args, Executor& executor) {
  desc.validate();
  if (desc.columns == 0) return;
  if (desc.rows == 0) {
    if (desc.has_weight) std::fill(args.dweight, args.dweight + desc.columns, 0.0f);
    if (desc.has_bias) std::fill(args.dbias, args.dbias + desc.columns, 0.0f);
    return;
  }
  cpu_kernels().layer_norm_backward(desc, pick_config(desc, cpu_features()), args, executor);
}

}  // namespace jaxator
