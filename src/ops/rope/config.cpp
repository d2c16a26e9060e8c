#include "src/ops/rope/config.h"

#include <algorithm>

namespace jaxator {

RopeConfig pick_config(const RopeDesc& desc, const CpuFeatures& cpu) {
  RopeConfig config;
  const int64_t row_bytes = std::max<int64_t>(1, desc.heads * desc.columns * size_of(desc.type));
  // Past the cache a non-temporal store saves reading the line before it is overwritten: a third of the traffic.
  config.stream = desc.rows * row_bytes > cpu.last_level_cache_bytes / 2;
  // 64 KiB a task: about 5 us, the price of one hand-off to XLA's pool; more when streaming, as each task then ends by waiting
  // for its last stores.
  config.task_rows = std::max<int64_t>(1, (config.stream ? 512 << 10 : 64 << 10) / row_bytes);
  return config;
}

}  // namespace jaxator
