/// @file
/// Rotary embedding on a ROCm stream: check, return early for empty problems, decide, launch.
#include <cmath>

#include "src/ops/rocm_kernels.h"
#include "src/ops/rope/gpu_powers.h"
#include "src/ops/rope/rocm_config.h"

namespace jaxator {
namespace rocm::images {
extern const Image rope;
}
namespace {

// In vectors, then pair by pair.
const RocmKernelsByType kKernels[] = {JAXATOR_ROCM_KERNELS_BY_TYPE(rocm::images::rope, "rope"),
                                      JAXATOR_ROCM_KERNELS_BY_TYPE(rocm::images::rope, "rope_elements")};

/// The product is taken once neither factor can make it overflow.
void check_sizes(const RopeDesc& desc) {
  const auto refuse = [](const char* what, int64_t value) {
    throw Error(std::string(what) + "=" + std::to_string(value) + ": must be at most " + std::to_string(kMostRopeRow));
  };
  if (desc.columns > kMostRopeRow) refuse("columns", desc.columns);
  if (desc.heads > kMostRopeRow) refuse("heads", desc.heads);
  if (desc.heads * desc.columns > kMostRopeRow) refuse("heads * columns", desc.heads * desc.columns);
}

}  // namespace

void rope(const RopeDesc& desc, const RopeArgs& args, const RocmStream& stream) {
  desc.validate();
  check_sizes(desc);
  if (desc.rows == 0 || desc.heads == 0 || desc.columns == 0) return;
  const RopeRocmConfig config = pick_rocm_config(desc, rocm_aligned_for_vectors({args.x, args.y}));

  cdna::Rope parameters{.x = args.x,
                        .positions = desc.has_tables ? nullptr : args.positions,
                        .cosine = args.cosine,
                        .sine = args.sine,
                        .y = args.y,
                        .rows = desc.rows,
                        .angle_rows = desc.angle_rows,
                        .heads = static_cast<unsigned>(desc.heads),
                        .pairs = static_cast<unsigned>(desc.columns / 2),
                        .interleaved = desc.interleaved,
                        .inverse = desc.inverse,
                        .first = {},
                        .powers = {}};
  fill_rope_powers(desc, parameters);

  const rocm::Geometry geometry{.grid = {config.blocks, config.turns, 1},
                                .block = {config.unit_threads, config.heads, config.rows},
                                .shared_bytes = config.shared_bytes};
  rocm::launch(kernel_of(kKernels[config.vectors ? 0 : 1], desc.type), geometry, stream, parameters);
}

}  // namespace jaxator
