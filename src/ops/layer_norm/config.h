/// @file
/// What was decided for one layer normalisation on a CPU.
#pragma once

#include "jaxator/layer_norm.h"
#include "src/ops/norm_config.h"

namespace jaxator {

using LayerNormConfig = NormConfig;

LayerNormConfig pick_config(const LayerNormDesc& desc, const CpuFeatures& cpu);

}  // namespace jaxator
