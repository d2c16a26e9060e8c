/// @file
/// Attention backward on a CUDA stream: check, return early for empty problems, decide, launch. Kernels in order: row values, the
/// products, dq in its own type, and dbias where it is asked for.
#include <cmath>
#include <limits>

#include "jaxator/cuda.h"
#include "src/ops/attention/config.h"
#include "src/ops/attention/cuda_common.h"
#include "src/ops/attention/hopper_backward.h"
#include "src/ops/attention/visibility.h"
#include "src/runtime/cuda/launch.h"

namespace jaxator {
namespace cuda::images {
extern const Image attention_backward_64, attention_backward_64_pairs, attention_backward_128, attention_backward_128_pairs,
    attention_backward_rows, attention_backward_bias;
}
namespace {

using cuda::Kernel;
using hopper::attention::BackwardParams;

/// Of one native head size and element type.
struct Kernels {
  Kernel prepare, main, main_pairs, finish, bias;
};
#define JAXATOR_KERNELS(head, type)                                                                     \
  {                                                                                                     \
    {cuda::images::attention_backward_rows, "attention_backward_prepare_" #head "_" #type},             \
        {cuda::images::attention_backward_##head, "attention_backward_" #head "_" #type},               \
        {cuda::images::attention_backward_##head##_pairs, "attention_backward_" #head "_pairs_" #type}, \
        {cuda::images::attention_backward_rows, "attention_backward_finish_" #head "_" #type}, {        \
      cuda::images::attention_backward_bias, "attention_backward_bias_" #head "_" #type                 \
    }                                                                                                   \
  }
const Kernels kKernels[2][2] = {{JAXATOR_KERNELS(64, bf16), JAXATOR_KERNELS(64, f16)},
                                {JAXATOR_KERNELS(128, bf16), JAXATOR_KERNELS(128, f16)}};
#undef JAXATOR_KERNELS
const Kernel kZero{cuda::images::attention_backward_rows, "attention_backward_zero"};

struct CudaConfig {
  int head;         // native head size: both q and v are padded to it by the copy engine
  bool pairs;       // mask, bias or segments are read pair by pair
  int64_t queries;  // rows of a query block
  int64_t query_blocks, key_blocks;
  int64_t planes_together;  // pairs of batch entry and key head whose key blocks are handed out alternately

  int64_t planes_rows(const AttentionDesc& desc) const { return desc.batch * desc.heads * query_blocks * queries; }
};

CudaConfig pick_cuda_config(const AttentionDesc& desc) {
  CudaConfig config;
  config.head = std::max(desc.head_size, desc.value_size) <= 64 ? 64 : 128;
  config.pairs = desc.has_mask || desc.has_bias || desc.has_segment_ids;
  config.queries = hopper::attention::backward_queries(config.head);
  config.query_blocks = ceil_div(desc.query_length, config.queries);
  config.key_blocks = ceil_div(desc.key_length, hopper::attention::kBackwardKeys);
  // Key blocks of one plane that run at the same time share reads of q and dout and the lines of dq. Where all items are equally
  // long, a quarter of a plane's may: 16384 keys of 16 or 8 heads gained 2 and 7 %. Causal items of a plane wait for each other
  // at their ends, and lost 18 %.
  const bool full = !desc.causal && desc.window_left < 0 && desc.window_right < 0;
  const int64_t planes = std::max<int64_t>(1, desc.batch * desc.kv_heads), blocks = std::max<int64_t>(1, config.key_blocks);
  config.planes_together = full ? std::min(planes, std::max<int64_t>(4, 512 / blocks)) : planes;
  return config;
}

void check(const AttentionDesc& desc, const CudaConfig& config) {
  cuda::require_cuda_attention(desc);
  const int64_t size = std::max(desc.head_size, desc.value_size);
  if (size > 128)
    throw UnsupportedError("head_size=" + std::to_string(desc.head_size) + ", value_size=" + std::to_string(desc.value_size) +
                           ": must be at most 128 for the backward pass on CUDA");
  const auto below = [](const char* name, int64_t value, int bits) {
    if (value > (int64_t{1} << bits) - 1)
      throw UnsupportedError(std::string(name) + "=" + std::to_string(value) + ": must be below 2^" + std::to_string(bits) +
                             " on CUDA");
  };
  // Positions are 32 bits, and sums of three of them are formed.
  below("query_length", desc.query_length, 29);
  below("key_length", desc.key_length, 29);
  below("padded query_length * heads", config.query_blocks * config.queries * desc.heads, 31);
  below("batch * heads * padded query_length / 16", config.planes_rows(desc) / 16, 31);
  below("batch * kv_heads * blocks of keys", desc.batch * desc.kv_heads * config.key_blocks, 31);
}

/// Scratch, in this order; every part is a multiple of 16 bytes.
struct Scratch {
  int64_t dq_sums, row_values, query_ids, turns;  // bytes
  explicit Scratch(const AttentionDesc& desc, const CudaConfig& config)
      : dq_sums(config.planes_rows(desc) * config.head * 4),
        row_values(config.planes_rows(desc) * 4),
        query_ids(desc.batch * config.query_blocks * config.queries * 4),
        turns((desc.batch * desc.heads * config.query_blocks + 1) * hopper::attention::kTurnWords * 4) {}
  int64_t bytes() const { return dq_sums + 2 * row_values + query_ids + turns; }
};

/// Whether a row may see no key or be padding. By causal and window alone the first or the last row then sees none.
bool rows_may_be_dead(const AttentionDesc& desc, const CudaConfig& config) {
  if (config.pairs || desc.has_query_lengths || desc.has_key_lengths) return true;
  const BatchLimits limits = limits_of(desc, nullptr, nullptr, 0);
  return keys_of_query(desc, limits, 0).empty() || keys_of_query(desc, limits, desc.query_length - 1).empty();
}

BackwardParams parameters_of(const AttentionDesc& desc, const AttentionBackwardArgs& args, const CudaConfig& config) {
  constexpr float kLog2E = 1.44269504088896340736f, kInfinity = std::numeric_limits<float>::infinity();
  const Scratch scratch(desc, config);
  char* at = static_cast<char*>(args.scratch);
  BackwardParams p{};
  p.see = cuda::visibility_of(desc, args);
  p.out = args.out, p.dout = args.dout, p.lse = args.lse, p.dlse = args.dlse, p.dq = args.dq;
  if (desc.kv_gradients_f32) p.dk32 = static_cast<float*>(args.dk), p.dv32 = static_cast<float*>(args.dv);
  p.dbias = desc.bias_gradient ? args.dbias : nullptr;
  p.dq_sums = reinterpret_cast<float*>(at);
  p.lse2 = reinterpret_cast<float*>(at += scratch.dq_sums);
  p.delta = reinterpret_cast<float*>(at += scratch.row_values);
  if (desc.has_segment_ids) p.query_ids = reinterpret_cast<int*>(at + scratch.row_values);
  p.turns = reinterpret_cast<int*>(at += scratch.row_values + scratch.query_ids);
  p.next_item = p.turns + desc.batch * desc.heads * config.query_blocks * hopper::attention::kTurnWords;
  p.batch = static_cast<int>(desc.batch), p.heads = static_cast<int>(desc.heads), p.kv_heads = static_cast<int>(desc.kv_heads);
  p.head_size = static_cast<int>(desc.head_size), p.value_size = static_cast<int>(desc.value_size);
  p.query_blocks = static_cast<int>(config.query_blocks), p.key_blocks = static_cast<int>(config.key_blocks);
  p.items = static_cast<int>(desc.batch * desc.kv_heads * config.key_blocks);
  p.planes_together = static_cast<int>(config.planes_together);
  p.rows_may_be_dead = rows_may_be_dead(desc, config);
  p.scale = desc.scale;
  // Hidden pairs are told by an infinite product, so the factor must not be 0: the least normal number times any real product is
  // below every rounding of a logit.
  p.scale_log2 = desc.scale == 0 ? std::numeric_limits<float>::min() : desc.scale * kLog2E;
  p.hidden = p.scale_log2 > 0 ? -kInfinity : kInfinity;
  return p;
}

void zero(void* to, int64_t bytes, const CudaStream& stream) {
  if (bytes == 0) return;
  constexpr int64_t kMostBlocks = 1024;
  const long long words = bytes / 4;
  cuda::launch(kZero, {.grid = {std::min(ceil_div(words, 256), kMostBlocks), 1, 1}, .block = {256, 1, 1}}, stream, to, words);
}

/// Without pairs all gradients are zeros.
void backward_of_nothing(const AttentionDesc& desc, const AttentionBackwardArgs& args, const CudaStream& stream) {
  const int64_t keys = desc.batch * desc.key_length * desc.kv_heads,
                item = size_of(desc.kv_gradients_f32 ? DType::f32 : desc.type);
  zero(args.dq, desc.batch * rows_of(desc) * desc.kv_heads * desc.head_size * size_of(desc.type), stream);
  zero(args.dk, keys * desc.head_size * item, stream);
  zero(args.dv, keys * desc.value_size * item, stream);
  const auto& shape = desc.bias_shape;
  if (desc.bias_gradient) zero(args.dbias, shape[0] * shape[1] * shape[2] * shape[3] * 4, stream);
}

struct Maps {
  cuda::TensorMap q, k, v, dout, dk, dv;
};

Maps maps_of(const AttentionDesc& desc, const AttentionBackwardArgs& args, int64_t queries) {
  const auto map = [&](const char* name, const void* data, int64_t length, int64_t heads, int64_t size, int64_t rows) {
    return cuda::attention_map(name, desc.type, data, desc.batch, length, heads, size, static_cast<uint32_t>(rows));
  };
  constexpr int64_t kKeys = hopper::attention::kBackwardKeys;
  const int64_t t = desc.query_length, s = desc.key_length, n = desc.heads, k = desc.kv_heads, h = desc.head_size,
                v = desc.value_size;
  Maps maps{.q = map("q", args.q, t, n, h, queries),
            .k = map("k", args.k, s, k, h, kKeys),
            .v = map("v", args.v, s, k, v, kKeys),
            .dout = map("dout", args.dout, t, n, v, queries),
            .dk = {},
            .dv = {}};
  // Each warpgroup stores its half of the keys. float32 gradients are stored without the copy engine.
  if (!desc.kv_gradients_f32) maps.dk = map("dk", args.dk, s, k, h, kKeys / 2), maps.dv = map("dv", args.dv, s, k, v, kKeys / 2);
  return maps;
}

/// A block for each tile of the bias.
void bias_gradient(const AttentionDesc& desc, const AttentionBackwardArgs& args, const BackwardParams& p,
                   const CudaConfig& config, const Kernel& kernel, const CudaStream& stream) {
  constexpr int kQueries = hopper::attention::kBiasQueries;
  const auto& shape = desc.bias_shape;
  const int64_t tiles = shape[0] * shape[1] * ceil_div(shape[2], kQueries) * ceil_div(shape[3], hopper::attention::kBackwardKeys);
  const Maps maps = maps_of(desc, args, kQueries);
  const cuda::Geometry geometry{
      .grid = {tiles, 1, 1}, .block = {384, 1, 1}, .shared_bytes = hopper::attention::bias_shared_bytes(config.head)};
  cuda::launch(kernel, geometry, stream, maps.q, maps.k, maps.v, maps.dout, p);
}

}  // namespace

int64_t attention_cuda_backward_scratch_bytes(const AttentionDesc& desc) {
  desc.validate();
  return Scratch(desc, pick_cuda_config(desc)).bytes();
}

void attention_backward(const AttentionDesc& desc, const AttentionBackwardArgs& args, const CudaStream& stream) {
  desc.validate();
  const CudaConfig config = pick_cuda_config(desc);
  check(desc, config);
  if (desc.batch == 0 || desc.key_length == 0 || rows_of(desc) == 0) return backward_of_nothing(desc, args, stream);
  cuda::require_aligned("out", args.out, 16), cuda::require_aligned("dq", args.dq, 16);
  cuda::require_aligned("scratch", args.scratch, 16);
  const BackwardParams p = parameters_of(desc, args, config);
  const Kernels& kernels = kKernels[config.head == 128][desc.type == DType::f16];

  const int64_t rows_per_block = 256 / (config.head / 8);
  cuda::launch(kernels.prepare, {.grid = {config.planes_rows(desc) / rows_per_block, 1, 1}, .block = {256, 1, 1}}, stream, p);

  const Maps maps = maps_of(desc, args, config.queries);
  const cuda::Geometry main{.grid = {std::min<int64_t>(p.items, cuda::multiprocessors(stream.device)), 1, 1},
                            .block = {384, 1, 1},
                            .shared_bytes = hopper::attention::backward_shared_bytes(config.head)};
  cuda::launch(config.pairs ? kernels.main_pairs : kernels.main, main, stream, maps.q, maps.k, maps.v, maps.dout, maps.dk,
               maps.dv, p);

  const cuda::Geometry finish{.grid = {desc.batch * desc.heads * config.query_blocks, 1, 1},
                              .block = {256, 1, 1},
                              .shared_bytes = static_cast<int>(config.queries) * (config.head * 2 + 16)};
  cuda::launch(kernels.finish, finish, stream, p);
  if (desc.bias_gradient) bias_gradient(desc, args, p, config, kernels.bias, stream);
}

}  // namespace jaxator
