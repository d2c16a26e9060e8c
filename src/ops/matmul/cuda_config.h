/// @file
/// What was decided for one matmul on a Hopper GPU.
#pragma once

#include <cstdint>

#include "jaxator/matmul.h"

namespace jaxator {

struct MatmulCudaConfig {
  bool loose = false;             // element by element, for operands that the copy engine cannot take
  int rows = 128, columns = 256;  // of a tile
  int pair = 1;                   // neighbouring tiles along m whose blocks share b's tile
  int splits = 1;                 // blocks of a cluster that share the steps along k
  int parts = 1;                  // clusters that do, by way of scratch; not together with splits
  int band = 8;                   // cluster rows that are walked before the next column

  int cluster() const { return pair * splits; }
  int slices() const { return splits * parts; }
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

/// Clusters of one or two blocks that an H100 or H200 runs at a time. Larger ones find few places: 132 multiprocessors lie in
/// groups of 14 to 18, and 32 clusters of four took two turns.
inline int64_t clusters_at_once(int cluster) { return 132 / cluster; }

}  // namespace jaxator
