#include "src/ops/rms_norm/config.h"

namespace jaxator {

RmsNormConfig pick_config(const RmsNormDesc& desc, const CpuFeatures& cpu) {
  return pick_norm_config(desc.type, desc.rows, desc.columns, cpu);
}

}  // namespace jaxator
