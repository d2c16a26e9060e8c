/// @file
/// What was decided for one SwiGLU on a Hopper GPU: by the shape and the addresses alone, so results do not depend on the device.
#pragma once

#include <algorithm>
#include <cstdint>

#include "jaxator/swiglu.h"
#include "src/ops/swiglu/hopper.h"

namespace jaxator {

struct SwigluCudaConfig {
  bool vectors = false;  // units of 16 bytes, else of one element
  int64_t rows = 0;      // as the kernel sees them
  int64_t units = 0;     // of a row
  int64_t pieces = 1;    // of a row
  int threads = 1;       // of a piece
  int rows_per_block = 1;
  int64_t blocks = 1;
};

inline SwigluCudaConfig pick_cuda_config(const SwigluDesc& desc, bool aligned) {
  constexpr int kThreads = 256;
  SwigluCudaConfig config;
  // Separate arrays are one long row, so that short rows cost nothing; packed rows have the other half between them.
  const int64_t columns = desc.packed ? desc.columns : desc.rows * desc.columns;
  config.rows = desc.packed ? desc.rows : 1;
  config.vectors = aligned && columns * size_of(desc.type) % 16 == 0;
  config.units = config.vectors ? columns * size_of(desc.type) / 16 : columns;

  // Equal pieces, as many threads as they need, in whole warps: 1792 units of a row are 4 pieces of 224 threads.
  constexpr int64_t kMost = int64_t{kThreads} * hopper::kSwigluUnits;
  config.pieces = (config.units + kMost - 1) / kMost;
  const int64_t per_piece = config.pieces * hopper::kSwigluUnits;
  config.threads = static_cast<int>((config.units + per_piece - 1) / per_piece);
  if (config.threads > 32) config.threads = (config.threads + 31) / 32 * 32;
  config.rows_per_block = config.pieces == 1 ? static_cast<int>(std::min<int64_t>(config.rows, kThreads / config.threads)) : 1;
  config.blocks = config.pieces * ((config.rows + config.rows_per_block - 1) / config.rows_per_block);
  return config;
}

}  // namespace jaxator
