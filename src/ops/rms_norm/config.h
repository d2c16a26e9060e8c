/// @file
/// What was decided for one RMS normalisation on a CPU.
#pragma once

#include <cstdint>

#include "jaxator/cpu.h"
#include "jaxator/rms_norm.h"

namespace jaxator {

struct RmsNormConfig {
  int64_t forward_rows = 1;   // rows of one forward task
  int64_t backward_rows = 1;  // rows of one backward task, which owns one partial dweight
  int64_t backward_tasks = 0;
  bool stream = false;  // non-temporal stores
};

RmsNormConfig pick_config(const RmsNormDesc& desc, const CpuFeatures& cpu);

}  // namespace jaxator
