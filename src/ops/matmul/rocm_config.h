/// @file
/// What was decided for one matmul on a CDNA GPU.
#pragma once

#include <cstdint>
#include <string>

#include "jaxator/matmul.h"

namespace jaxator {

struct MatmulRocmConfig {
  bool loose = false;                       // element by element, for operands that vectors of 16 bytes cannot take
  int64_t tile_rows = 0, tile_columns = 0;  // tiles of 256 x 256 of one matrix
  int parts = 1;                            // blocks of a tile, by way of scratch
  unsigned chunk = 1, window = 1;           // of the order of blocks, see matmul_tile_of
};

/// Bytes of the parts' sums.
int64_t matmul_partials_bytes(const MatmulDesc& desc, const MatmulRocmConfig& config);

/// For a simplified desc. Of the architecture only the number of compute units counts, and only for the order of blocks: results
/// follow from shape and type alone.
MatmulRocmConfig pick_rocm_config(const MatmulDesc& desc, RocmArchitecture architecture);

/// Why the fast kernels cannot take desc's operands; "" if they can.
std::string matmul_rocm_loose_reason(const MatmulDesc& desc);

/// Panels of a and b (256 rows, all of k) that the blocks running on one die at the same time touch, for each of these blocks:
/// what its second-level cache has to bring. 2 is the most; 2 / sqrt(blocks of a die) is the least.
double matmul_panels(int64_t tile_rows, int64_t tile_columns, unsigned chunk, unsigned window, int compute_units);

}  // namespace jaxator
