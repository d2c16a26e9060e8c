/// @file
/// How a normalisation over the last axis is cut up on a CPU: the same for every norm, whose passes move the same bytes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "jaxator/cpu.h"
#include "jaxator/types.h"
#include "src/tile/cpu/row_tasks.h"

namespace jaxator {

struct NormConfig {
  int64_t forward_rows = 1;   // rows of one forward task
  int64_t backward_rows = 1;  // rows of one backward task, which owns one partial sum for each parameter's gradient
  int64_t backward_tasks = 0;
  bool stream = false;  // non-temporal stores
};

inline NormConfig pick_norm_config(DType type, int64_t rows, int64_t columns, const CpuFeatures& cpu) {
  NormConfig config;
  const int64_t row_bytes = std::max<int64_t>(1, columns * size_of(type));

  // 64 KiB a task: about 5 us at one core's copy rate, the price of one hand-off to XLA's pool, so tasks smaller than
  // this would be slower than running on the calling thread.
  config.forward_rows = std::max<int64_t>(1, (64 << 10) / row_bytes);

  // The backward pass sums the parameters' gradients in blocks of rows. Their number is fixed by the shape, not by the
  // threads, so the bits are too; 64 keeps 32 threads busy twice over while the partials of 4096 columns fit in 1 MiB.
  constexpr int64_t kMaxBlocks = 64;
  config.backward_rows = std::max(config.forward_rows, (rows + kMaxBlocks - 1) / kMaxBlocks);
  config.backward_tasks = (rows + config.backward_rows - 1) / config.backward_rows;

  // Non-temporal stores save reading the output before it is overwritten (a third of the traffic), but lose if the next op
  // would have found it in cache: measured 18 against 12.7 GB/s past the cache, 15 against 18 on 1 MiB. Each task then
  // ends by waiting for its last stores (0.3 us), so it is larger: the rows that begin in one huge page (RowTasks).
  config.stream = rows * row_bytes > cpu.last_level_cache_bytes / 2;
  if (config.stream) config.forward_rows = std::max<int64_t>(1, kHugePage / row_bytes);
  return config;
}

}  // namespace jaxator
