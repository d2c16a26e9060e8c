/// @file
/// What was decided for one RMS normalisation on a CPU.
#pragma once

#include "jaxator/rms_norm.h"
#include "src/ops/norm_config.h"

namespace jaxator {

using RmsNormConfig = NormConfig;

RmsNormConfig pick_config(const RmsNormDesc& desc, const CpuFeatures& cpu);

}  // namespace jaxator
