#include "src/ops/swiglu/config.h"

#include <algorithm>

namespace jaxator {

SwigluConfig pick_config(const SwigluDesc& desc, const CpuFeatures& cpu) {
  SwigluConfig config;
  const int64_t elements = desc.rows * desc.columns, item = size_of(desc.type);

  // Past the cache a non-temporal store saves reading the line before it is overwritten: a quarter of the traffic.
  config.stream = elements * item > cpu.last_level_cache_bytes / 2;

  // 64 KiB of result a task: about 5 us, the price of one hand-off to XLA's pool; more when streaming, as each task then ends
  // by waiting for its last stores. Packed rows are pieces of their own, as the other half lies between them; separate arrays
  // are one long row, so that short rows cost nothing.
  const int64_t task_elements = (config.stream ? 512 << 10 : 64 << 10) / item;
  config.piece = std::max<int64_t>(1, desc.packed ? desc.columns : task_elements);
  config.stride = desc.packed ? 2 * desc.columns : config.piece;
  config.pieces = (elements + config.piece - 1) / config.piece;
  config.task_pieces = std::max<int64_t>(1, task_elements / config.piece);
  // Half a row of packed arrays is too short for the CPU's own prefetching to get going.
  config.ahead = desc.packed ? config.stride : 4096 / item;
  return config;
}

}  // namespace jaxator
