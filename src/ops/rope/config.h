/// @file
/// What was decided for one rotary embedding on a CPU.
#pragma once

#include <cstdint>

#include "jaxator/cpu.h"
#include "jaxator/rope.h"

namespace jaxator {

struct RopeConfig {
  int64_t task_rows = 1;
  bool stream = false;  // non-temporal stores
};

RopeConfig pick_config(const RopeDesc& desc, const CpuFeatures& cpu);

}  // namespace jaxator
