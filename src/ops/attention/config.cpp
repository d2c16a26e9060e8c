#include "src/ops/attention/config.h"

#include <algorithm>

#include "src/ops/attention/scratch.h"

namespace jaxator {
namespace {

/// Rows are dealt to parts only where batch entries and key/value heads are too few to keep a machine busy: 16 tasks, and no
/// more, because every part adds sums of dk and dv that are float32. Fixed by the shape, so the bits are too.
int64_t parts_of(const AttentionDesc& desc) {
  constexpr int64_t kLeastRows = 256;
  const int64_t pairs = std::max<int64_t>(1, desc.batch * desc.kv_heads);
  const int64_t parts = std::max<int64_t>(1, std::min(ceil_div(kMostParts, pairs), ceil_div(rows_of(desc), kLeastRows)));
  // For long sequences the sums are the scratch: at most 512 MiB of them, but 4 parts at least.
  const int64_t sum_bytes = std::max<int64_t>(1, pairs * desc.key_length * (desc.head_size + desc.value_size) * 4);
  return std::min(parts, std::max<int64_t>(4, (512ll << 20) / sum_bytes));
}

/// Keys that one part can see: all of them, or with a window on both sides those around its queries.
int64_t keys_of_part(const AttentionDesc& desc, const AttentionConfig& config) {
  const int64_t all = round_up(desc.key_length, kKeyGranule);
  if (!config.contiguous_parts) return all;
  const int64_t runs = ceil_div(rows_of(desc), config.backward_rows);
  const int64_t queries = ceil_div(ceil_div(runs, config.parts) * config.backward_rows, heads_per_group(desc)) + 1;
  const int64_t right = desc.causal ? 0 : std::min(desc.window_right, all);
  return std::min(all, round_up(queries + std::min(desc.window_left, all) + right + 2 * kKeyGranule, kKeyGranule));
}

/// Every way in which scratch may be cut up, whatever CPU this runs on.
template <class Body> void for_each_layout(const AttentionDesc& desc, Body&& body) {
  for (CpuIsa isa : {CpuIsa::v3, CpuIsa::v4, CpuIsa::v4_bf16})
    for (AttentionDot dot : {AttentionDot::f32, AttentionDot::bf16}) {
      if (dot == AttentionDot::bf16 && (isa != CpuIsa::v4_bf16 || desc.type != DType::bf16)) continue;
      AttentionDesc forced = desc;
      forced.dot = dot;
      body(pick_config(forced, cpu_features(), isa));
    }
}

}  // namespace

AttentionConfig pick_config(const AttentionDesc& desc, const CpuFeatures& cpu, CpuIsa isa) {
  AttentionConfig config;
  config.lanes = isa == CpuIsa::v3 ? 8 : 16;

  const bool bf16_dot = desc.type == DType::bf16 && isa == CpuIsa::v4_bf16;
  if (desc.dot == AttentionDot::bf16 && !bf16_dot)
    throw UnsupportedError(std::string("dot=bf16: needs bfloat16 arrays and AVX512_BF16; type=") + name_of(desc.type) +
                           ", isa=" + name_of(isa));
  // Widening bfloat16 to float32 is exact and FMA is everywhere; the dot instruction pays only where it is faster.
  const bool use_dot =
      desc.dot == AttentionDot::bf16 || (desc.dot == AttentionDot::by_cpu_model && bf16_dot && cpu.fast_bf16_dot);
  config.dot = use_dot ? AttentionDot::bf16 : AttentionDot::f32;

  // Packed rows live in the second-level cache (1 MiB on Zen 5, 2 MiB on Emerald Rapids): four forms of 256 rows of 128 words
  // are 512 KiB, and longer ones take half as many rows. Keys are packed once for all of them: 256 rows against 128 gained
  // 2 % on Emerald Rapids, with float32 words.
  const int64_t words = ceil_div(desc.head_size, config.group()) + ceil_div(desc.value_size, config.group());
  config.backward_rows = words <= 256 ? 256 : 128;

  config.parts = parts_of(desc);
  config.contiguous_parts = config.parts > 1 && desc.window_left >= 0 && (desc.causal || desc.window_right >= 0);
  config.part_keys = keys_of_part(desc, config);
  // One part: its sums are the slot's, the largest piece of scratch. All slots together stay under 256 MiB, but never fewer
  // than 8 tasks run at a time.
  const int64_t sums = std::max<int64_t>(1, sums_floats(desc, config) * 4);
  config.max_backward_slots = std::clamp<int64_t>((256ll << 20) / sums, 8, 64);
  return config;
}

int64_t attention_slots(const AttentionDesc& desc) {
  const int64_t pairs = desc.batch * desc.kv_heads;
  const int64_t forward = pairs * ceil_div(rows_of(desc), AttentionConfig{}.forward_rows);
  return std::clamp<int64_t>(std::max(forward, pairs * parts_of(desc)), 1, 64);
}

int64_t attention_forward_scratch_bytes(const AttentionDesc& desc, int64_t slots) {
  int64_t bytes = 0;
  for_each_layout(desc, [&](const AttentionConfig& config) { bytes = std::max(bytes, forward_bytes(desc, config, slots)); });
  return bytes;
}

int64_t attention_backward_scratch_bytes(const AttentionDesc& desc, int64_t slots) {
  int64_t bytes = 0;
  for_each_layout(desc, [&](const AttentionConfig& config) { bytes = std::max(bytes, backward_bytes(desc, config, slots)); });
  return bytes;
}

}  // namespace jaxator
