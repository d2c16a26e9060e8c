/// @file
/// What was decided for one SwiGLU on a CPU.
#pragma once

#include <cstdint>

#include "jaxator/cpu.h"
#include "jaxator/swiglu.h"

namespace jaxator {

/// The result is cut into pieces without gaps; gate (and up) of successive pieces begin `stride` elements apart.
struct SwigluConfig {
  int64_t piece = 1;  // elements; the last piece may be shorter
  int64_t pieces = 0;
  int64_t stride = 1;
  int64_t task_pieces = 1;
  int64_t ahead = 0;    // elements from what is read to what is prefetched
  bool stream = false;  // non-temporal stores
};

SwigluConfig pick_config(const SwigluDesc& desc, const CpuFeatures& cpu);

}  // namespace jaxator
