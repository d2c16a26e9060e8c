#include "src/ops/layer_norm/config.h"

namespace jaxator {

LayerNormConfig pick_config(const LayerNormDesc& desc, const CpuFeatures& cpu) {
  return pick_norm_config(desc.type, desc.rows, desc.columns, cpu);
}

}  // namespace jaxator
