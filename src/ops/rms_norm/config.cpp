#include "src/ops/rms_norm/config.h"

#include <algorithm>

namespace jaxator {

RmsNormConfig pick_config(const RmsNormDesc& desc, const CpuFeatures& cpu) {
  RmsNormConfig config;
  const int64_t row_bytes = std::max<int64_t>(1, desc.columns * size_of(desc.type));

  // 64 KiB a task: about 5 us at one core's copy rate, the price of one hand-off to XLA's pool, so tasks smaller than
  // this would be slower than running on the calling thread.
  config.forward_rows = std::max<int64_t>(1, (64 << 10) / row_bytes);

  // The backward pass sums dweight in blocks of rows. Their number is fixed by the shape, not by the threads, so the bits
  // are too; 64 keeps 32 threads busy twice over while the partials of 4096 columns fit in 1 MiB.
  constexpr int64_t kMaxBlocks = 64;
  config.backward_rows = std::max(config.forward_rows, (desc.rows + kMaxBlocks - 1) / kMaxBlocks);
  config.backward_tasks = (desc.rows + config.backward_rows - 1) / config.backward_rows;

  // Non-temporal stores save reading the output before it is overwritten (a third of the traffic), but lose if the next op
  // would have found it in cache: measured 18 against 12.7 GB/s past the cache, 15 against 18 on 1 MiB. Each task then
  // ends by waiting for its last stores (0.3 us), so it is larger.
  config.stream = desc.rows * row_bytes > cpu.last_level_cache_bytes / 2;
  if (config.stream) config.forward_rows = std::max<int64_t>(1, (512 << 10) / row_bytes);
  return config;
}

}  // namespace jaxator
