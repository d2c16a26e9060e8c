/// @file
/// What was decided for one layer normalisation on a CPU.
#pragma once

#include <cstdint>

#include "jaxator/cpu.h"
#include "jaxator/layer_norm.h"

namespace jaxator {

struct LayerNormConfig {
  int64_t forward_rows = 1;   // rows of one forward task
  int64_t backward_rows = 1;  // rows of one backward task, which owns one partial dweight and dbias
  int64_t backward_tasks = 0;
  bool stream = false;  // non-temporal stores
};

LayerNormConfig pick_config(const LayerNormDesc& desc, const CpuFeatures& cpu);

}  // namespace jaxator
