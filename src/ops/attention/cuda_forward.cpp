/// @file
/// Attention forward on a CUDA stream: check, return early for empty problems, decide, launch.
#include "jaxator/cuda.h"
#include "src/ops/attention/config.h"
#include "src/ops/attention/cuda_common.h"
#include "src/ops/attention/hopper_forward.h"
#include "src/runtime/cuda/launch.h"

namespace jaxator {
namespace cuda::images {
extern const Image attention_forward_64, attention_forward_128, attention_forward_256;
}
namespace {

using cuda::Kernel;
using hopper::attention::ForwardTile;

// By size (64, 128, 256), then by element type (bfloat16, float16).
using namespace cuda::images;
const Kernel kPlain[3][2] = {
    {{attention_forward_64, "attention_forward_bf16"}, {attention_forward_64, "attention_forward_f16"}},
    {{attention_forward_128, "attention_forward_bf16"}, {attention_forward_128, "attention_forward_f16"}},
    {{attention_forward_256, "attention_forward_bf16"}, {attention_forward_256, "attention_forward_f16"}}};
const Kernel kPairs[3][2] = {
    {{attention_forward_64, "attention_forward_pairs_bf16"}, {attention_forward_64, "attention_forward_pairs_f16"}},
    {{attention_forward_128, "attention_forward_pairs_bf16"}, {attention_forward_128, "attention_forward_pairs_f16"}},
    {{attention_forward_256, "attention_forward_pairs_bf16"}, {attention_forward_256, "attention_forward_pairs_f16"}}};

struct CudaConfig {
  const Kernel& kernel;
  ForwardTile tile;
};

/// The narrowest tile that holds a row of q and of v, as the copy engine fills the rest with zeros. Mask, bias, segments, and a
/// scale that could turn -inf around take the kernel that computes each logit before it looks for the largest.
CudaConfig pick_cuda_config(const AttentionDesc& desc) {
  const int64_t columns = std::max(desc.head_size, desc.value_size);
  const int size = columns <= 64 ? 64 : columns <= 128 ? 128 : 256;
  const bool pairs = desc.has_mask || desc.has_bias || desc.has_segment_ids || !(desc.scale > 0);
  const auto& kernels = (pairs ? kPairs : kPlain)[size / 128];
  return {kernels[desc.type == DType::f16], hopper::attention::forward_tile(size, pairs)};
}

}  // namespace

void attention_forward(const AttentionDesc& desc, const AttentionForwardArgs& args, const CudaStream& stream) {
  desc.validate();
  cuda::require_cuda_attention(desc);
  if (desc.batch == 0 || rows_of(desc) == 0) return;
  const CudaConfig config = pick_cuda_config(desc);
  const ForwardTile& tile = config.tile;
  const int64_t tiles = ceil_div(desc.query_length, tile.queries), items = tiles * desc.batch * desc.heads;
  if (items > INT32_MAX)
    throw UnsupportedError("batch * heads * tiles of queries=" + std::to_string(items) + ": must be below 2^31 on CUDA");
  // Without keys nothing is read from them, but a map needs an array.
  const bool keys = desc.key_length > 0;
  const auto map = [&](const char* name, const void* data, int64_t length, int64_t heads, int64_t size, int rows) {
    return cuda::attention_map(name, desc.type, data, desc.batch, length, heads, size, static_cast<uint32_t>(rows));
  };
  const cuda::TensorMap q = map("q", args.q, desc.query_length, desc.heads, desc.head_size, tile.queries);
  const cuda::TensorMap k = keys ? map("k", args.k, desc.key_length, desc.kv_heads, desc.head_size, tile.keys) : q;
  const cuda::TensorMap v = keys ? map("v", args.v, desc.key_length, desc.kv_heads, desc.value_size, tile.keys) : q;
  const cuda::TensorMap out = map("out", args.out, desc.query_length, desc.heads, desc.value_size, 64);
  constexpr float kLog2E = 1.44269504088896340736f;
  const hopper::attention::ForwardParams params{.visibility = cuda::visibility_of(desc, args),
                                                .lse = args.lse,
                                                .batch = static_cast<int>(desc.batch),
                                                .heads = static_cast<int>(desc.heads),
                                                .heads_per_key_head = static_cast<int>(heads_per_group(desc)),
                                                .tiles = static_cast<unsigned>(tiles),
                                                .scale = desc.scale * kLog2E};
  const cuda::Geometry geometry{.grid = {std::min<int64_t>(items, cuda::multiprocessors(stream.device)), 1, 1},
                                .block = {tile.threads(), 1, 1},
                                .shared_bytes = tile.shared_bytes()};
  cuda::launch(config.kernel, geometry, stream, q, k, v, out, params);
}

}  // namespace jaxator
