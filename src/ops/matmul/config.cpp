#include "src/ops/matmul/config.h"

#include <algorithm>

#include "src/ops/matmul/problem.h"

namespace jaxator {
namespace {

/// Block sizes are whole vectors of the widest instruction set, so that they are the same on all.
constexpr int64_t kGranule = 32;

int64_t whole(int64_t size, int64_t most) { return std::clamp((size + kGranule - 1) / kGranule * kGranule, kGranule, most); }

/// Blocks whose packed operands and sums, 512 KiB, live in the second-level cache (1 MiB on Zen 5, 2 MiB on Emerald Rapids).
/// Packing 128 x 256 columns costs 1/85 of an operand element a product.
void set_blocks(const MatmulDesc& desc, MatmulConfig& config) {
  config.rows = whole(desc.m, 128);
  // Few rows leave little to do with what is packed: longer pieces of b's rows then come from memory faster.
  const bool few = desc.m <= 32 && !desc.transpose_b;
  config.columns = whole(desc.n, few ? 1024 : 256);
  config.depth = whole(desc.k, few ? 64 : 256);
}

}  // namespace

MatmulConfig pick_config(const MatmulDesc& desc, const CpuFeatures& cpu, CpuIsa isa) {
  MatmulConfig config;
  config.lanes = isa == CpuIsa::v3 ? 8 : 16;
  set_blocks(desc, config);

  const bool can_dot = desc.type == DType::bf16 && isa == CpuIsa::v4_bf16;
  if (desc.route == MatmulRoute::tf32) throw UnsupportedError("route=tf32: a CPU has no such products");
  if (desc.route == MatmulRoute::bf16_dot && !can_dot)
    throw UnsupportedError(std::string("route=bf16_dot: needs bfloat16 arrays and AVX512_BF16; type=") + name_of(desc.type) +
                           ", isa=" + name_of(isa));
  // Widening bfloat16 to float32 is exact and FMA is everywhere; the dot instruction pays only where it is faster.
  config.bf16_dot = desc.route == MatmulRoute::bf16_dot || (desc.route == MatmulRoute::by_target && can_dot && cpu.fast_bf16_dot);
  return config;
}

int64_t matmul_slots(const MatmulDesc& desc) {
  const MatmulDesc simple = simplified(desc);
  MatmulConfig config;
  set_blocks(simple, config);
  return std::clamp<int64_t>(matmul_tasks(simple, config), 1, 64);
}

int64_t matmul_scratch_bytes(const MatmulDesc& desc, int64_t slots) {
  MatmulConfig config;  // float32 words: the most
  set_blocks(simplified(desc), config);
  return slots * config.slot_bytes();
}

}  // namespace jaxator
