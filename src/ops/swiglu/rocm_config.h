/// @file
/// What was decided for one SwiGLU on CDNA: by the shape and the addresses alone, so results do not depend on the device.
#pragma once

#include <algorithm>
#include <cstdint>

#include "jaxator/swiglu.h"
#include "src/ops/swiglu/cdna.h"

namespace jaxator {

struct SwigluRocmConfig {
  bool vectors = false;    // units of 16 bytes, else of one element
  int64_t rows = 0;        // as the kernel sees them
  int64_t units = 0;       // of a row
  int64_t last_units = 0;  // of the last row
  int64_t stride = 0;      // of rows, in elements of y
  int threads = 64;        // of a row
  int rows_per_block = 1;
  int64_t blocks = 0;  // along the rows
  int64_t pieces = 1;  // of a row
};

inline SwigluRocmConfig pick_rocm_config(const SwigluDesc& desc, bool aligned) {
  constexpr int64_t kThreads = 256, kMost = kThreads * cdna::kSwigluUnits;
  const auto rounds = [](int64_t n, int64_t most) { return (n + most - 1) / most; };
  SwigluRocmConfig config;
  const int64_t elements = desc.packed ? desc.columns : desc.rows * desc.columns;
  config.vectors = aligned && elements * size_of(desc.type) % 16 == 0;
  const int64_t unit = config.vectors ? 16 / size_of(desc.type) : 1;
  if (desc.packed) {
    // Rows have the other half between them. Equal pieces of them, whole waves: 1792 units are 4 pieces of 256 threads.
    config.rows = desc.rows;
    config.units = config.last_units = desc.columns / unit;
    config.stride = desc.columns;
    config.pieces = rounds(config.units, kMost);
  } else {
    // Separate arrays are cut into rows of what a block takes, so that short rows of the caller's cost nothing.
    config.units = std::min(elements / unit, kMost);
    config.rows = rounds(elements / unit, config.units);
    config.last_units = elements / unit - (config.rows - 1) * config.units;
    config.stride = config.units * unit;
  }
  config.threads = static_cast<int>(rounds(config.units, config.pieces * cdna::kSwigluUnits));
  if (config.threads > 32) config.threads = static_cast<int>(rounds(config.threads, 64)) * 64;
  config.rows_per_block = config.pieces == 1 ? static_cast<int>(std::min<int64_t>(config.rows, kThreads / config.threads)) : 1;
  config.blocks = rounds(config.rows, config.rows_per_block);
  return config;
}

}  // namespace jaxator
