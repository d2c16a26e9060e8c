/// @file
/// What was decided for one matmul on a Hopper GPU.
#pragma once

#include <cstdint>

#include "jaxator/matmul.h"
#include "src/ops/matmul/hopper.h"

namespace jaxator {

struct MatmulCudaConfig {
  bool loose = false;             // element by element, for operands that the copy engine cannot take
  int rows = 128, columns = 256;  // of a tile
  int pair = 1;                   // neighbouring tiles along m whose blocks share b's tile
  int splits = 1;                 // blocks of a cluster that share the steps along k
  int streams = 0;                // clusters that share the steps of the tiles that do not fill all multiprocessors, by way of
                                  // scratch; not together with splits; 0: none do
  int band = 8;                   // cluster rows that are walked before the next column

  int cluster() const { return pair * splits; }
};

/// For a simplified desc. By shape and type alone, with the 132 multiprocessors of an H100 or H200 in mind wherever it runs: the
/// order of sums, and so the bits, follow from it.
MatmulCudaConfig pick_cuda_config(const MatmulDesc& desc);

/// Why the fast kernels cannot take desc's operands; "" if they can.
std::string matmul_cuda_loose_reason(const MatmulDesc& desc);

/// Steps of 128 bytes along k of one matrix: so many that there are kLeastSteps in all.
int64_t matmul_k_steps(const MatmulDesc& desc);

/// Tiles of one matrix, in pairs along m.
int64_t matmul_cluster_rows(const MatmulDesc& desc, const MatmulCudaConfig& config);
int64_t matmul_tile_columns(const MatmulDesc& desc, const MatmulCudaConfig& config);

/// Clusters' tiles, and how many of them are computed by one cluster each.
int64_t matmul_cluster_tiles(const MatmulDesc& desc, const MatmulCudaConfig& config);
int64_t matmul_whole_tiles(const MatmulDesc& desc, const MatmulCudaConfig& config);

/// Bytes of the flags at the start of scratch: for each range, block of its cluster and warpgroup that multiplies.
inline int64_t matmul_flag_bytes(const MatmulCudaConfig& config) {
  return (int64_t{config.streams} * config.pair * hopper::kMatmulGroups * 4 + 15) / 16 * 16;
}

/// Clusters of one or two blocks that an H100 or H200 runs at a time. Larger ones find few places: 132 multiprocessors lie in
/// groups of 14 to 18, and 32 clusters of four took two turns.
inline int64_t clusters_at_once(int cluster) { return 132 / cluster; }

}  // namespace jaxator
