#include "src/ops/layer_norm/config.h"

#include <algorithm>

namespace jaxator {

// The sizes are those of rms_norm, for the reasons given there: 64 KiB a task, at most 64 partial sums, and non-temporal
// stores where the result is larger than half of the last-level cache.
LayerNormConfig pick_config(const LayerNormDesc& desc, const CpuFeatures& cpu) {
  LayerNormConfig config;
  const int64_t row_bytes = std::max<int64_t>(1, desc.columns * size_of(desc.type));
  config.forward_rows = std::max<int64_t>(1, (64 << 10) / row_bytes);
  constexpr int64_t kMaxBlocks = 64;
  config.backward_rows = std::max(config.forward_rows, (desc.rows + kMaxBlocks - 1) / kMaxBlocks);
  config.backward_tasks = (desc.rows + config.backward_rows - 1) / config.backward_rows;
  config.stream = desc.rows * row_bytes > cpu.last_level_cache_bytes / 2;
  if (config.stream) config.forward_rows = std::max<int64_t>(1, (512 << 10) / row_bytes);
  return config;
}

}  // namespace jaxator
