/// @file
/// Attention forward on a ROCm stream: check, return early for empty problems, decide, launch.
#include "jaxator/rocm.h"
#include "src/ops/attention/config.h"
#include "src/ops/attention/rocm_common.h"
#include "src/runtime/rocm/launch.h"

namespace jaxator {
namespace rocm::images {
extern const Image attention_forward_64, attention_forward_128;
}
namespace {

using rocm::Kernel;
using namespace rocm::images;

/// By native head size (64, 128), then by element type (bfloat16, float16).
const Kernel kPlain[2][2] = {
    {{attention_forward_64, "attention_forward_bf16"}, {attention_forward_64, "attention_forward_f16"}},
    {{attention_forward_128, "attention_forward_bf16"}, {attention_forward_128, "attention_forward_f16"}}};
const Kernel kPairs[2][2] = {
    {{attention_forward_64, "attention_forward_pairs_bf16"}, {attention_forward_64, "attention_forward_pairs_f16"}},
    {{attention_forward_128, "attention_forward_pairs_bf16"}, {attention_forward_128, "attention_forward_pairs_f16"}}};

}  // namespace

void attention_forward(const AttentionDesc& desc, const AttentionForwardArgs& args, const RocmStream& stream) {
  desc.validate();
  rocm::require_rocm_attention(desc);
  if (desc.batch == 0 || rows_of(desc) == 0) return;
  constexpr float kLog2E = 1.44269504088896340736f;
  const int64_t tiles = ceil_div(desc.query_length, cdna::attention::kForwardQueries), blocks = tiles * desc.batch * desc.heads;
  rocm::require_blocks("batch * heads * tiles of queries", blocks);
  const cdna::attention::ForwardParams params{.see = rocm::visibility_of(desc, args),
                                              .q = args.q,
                                              .k = args.k,
                                              .v = args.v,
                                              .out = args.out,
                                              .lse = args.lse,
                                              .batch = static_cast<int>(desc.batch),
                                              .heads = static_cast<int>(desc.heads),
                                              .kv_heads = static_cast<int>(desc.kv_heads),
                                              .tiles = static_cast<int>(tiles),
                                              .head_size = static_cast<int>(desc.head_size),
                                              .value_size = static_cast<int>(desc.value_size),
                                              .scale = desc.scale * kLog2E};
  const auto& kernels = rocm::reads_pairs(desc) ? kPairs : kPlain;
  const Kernel& kernel = kernels[rocm::native_head(desc) == 128][desc.type == DType::f16];
  rocm::launch(kernel, {.grid = {blocks, 1, 1}, .block = {512, 1, 1}}, stream, params);
}

}  // namespace jaxator
