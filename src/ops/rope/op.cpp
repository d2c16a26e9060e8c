/// @file
/// The public function: check, return early for empty problems, decide, launch.
#include <cmath>

#include "src/ops/rope/config.h"
#include "src/runtime/cpu_kernels.h"

namespace jaxator {

void RopeDesc::validate() const {
  if (rows < 0) throw Error("rows=" + std::to_string(rows) + ": must not be negative");
  if (heads < 0) throw Error("heads=" + std::to_string(heads) + ": must not be negative");
  if (columns < 0 || columns % 2 != 0) throw Error("columns=" + std::to_string(columns) + ": must be even and not negative");
  if (angle_rows < 0 || (rows != 0 && (angle_rows == 0 || rows % angle_rows != 0)))
    throw Error("angle_rows=" + std::to_string(angle_rows) + ": must divide rows=" + std::to_string(rows));
  if (!std::isfinite(theta) || theta < 1) throw Error("theta=" + std::to_string(theta) + ": must be finite and at least 1");
}

void rope(const RopeDesc& desc, const RopeArgs& args, Executor& executor) {
  desc.validate();
  if (desc.rows == 0 || desc.heads == 0 || desc.columns == 0) return;
  cpu_kernels().rope(desc, pick_config(desc, cpu_features()), args, executor);
}

}  // namespace jaxator
