/// @file
/// Rotary embedding on a CUDA stream: check, return early for empty problems, decide, launch.
#include <cmath>

#include "src/ops/cuda_kernels.h"
#include "src/ops/rope/cuda_config.h"
#include "src/ops/rope/gpu_powers.h"
#include "src/runtime/cuda/launch.h"

namespace jaxator {
namespace cuda::images {
extern const Image rope;
}
namespace {

// In vectors, then pair by pair.
const KernelsByType kKernels[] = {JAXATOR_KERNELS_BY_TYPE(cuda::images::rope, "rope"),
                                  JAXATOR_KERNELS_BY_TYPE(cuda::images::rope, "rope_elements")};

/// The kernel counts pairs and heads in 32 bits, and the grid's second axis the turns of a head.
void check_sizes(const RopeDesc& desc) {
  constexpr int64_t kMostColumns = int64_t{1} << 25, kMostHeads = int64_t{1} << 30;
  if (desc.columns > kMostColumns)
    throw Error("columns=" + std::to_string(desc.columns) + ": must be at most " + std::to_string(kMostColumns));
  if (desc.heads > kMostHeads)
    throw Error("heads=" + std::to_string(desc.heads) + ": must be at most " + std::to_string(kMostHeads));
}

}  // namespace

void rope(const RopeDesc& desc, const RopeArgs& args, const CudaStream& stream) {
  desc.validate();
  check_sizes(desc);
  if (desc.rows == 0 || desc.heads == 0 || desc.columns == 0) return;
  const RopeCudaConfig config = pick_cuda_config(desc, aligned_for_vectors({args.x, args.y}));

  hopper::Rope parameters{.x = args.x,
                          .positions = desc.has_tables ? nullptr : args.positions,
                          .cosine = args.cosine,
                          .sine = args.sine,
                          .y = args.y,
                          .rows = desc.rows,
                          .angle_rows = desc.angle_rows,
                          .heads = static_cast<int>(desc.heads),
                          .pairs = static_cast<int>(desc.columns / 2),
                          .interleaved = desc.interleaved,
                          .inverse = desc.inverse,
                          .first = {},
                          .powers = {}};
  fill_rope_powers(desc, parameters);

  const cuda::Geometry geometry{.grid = {config.blocks, config.turns, 1},
                                .block = {config.unit_threads, config.heads, config.rows},
                                .shared_bytes = config.shared_bytes};
  cuda::launch(kernel_of(kKernels[config.vectors ? 0 : 1], desc.type), geometry, stream, parameters);
}

}  // namespace jaxator
