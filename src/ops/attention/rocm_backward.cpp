/// @file
/// Attention backward on a ROCm stream: check, return early for empty problems, decide, launch. Kernels in order: values of the
/// query rows, then dq, dk and dv, and dbias where it is asked for.
#include "jaxator/rocm.h"
#include "src/ops/attention/config.h"
#include "src/ops/attention/rocm_common.h"
#include "src/runtime/rocm/launch.h"

namespace jaxator {
namespace rocm::images {
extern const Image attention_backward_64, attention_backward_128, attention_backward_rows, attention_backward_bias;
}
namespace {

using cdna::attention::BackwardParams;
using rocm::Kernel;
using namespace rocm::images;

/// Of one native head size and one gradient.
struct Kernels {
  Kernel plain[2], pairs[2];  // by element type (bfloat16, float16)
};
#define JAXATOR_KERNELS(image, gradient)                                                          \
  {                                                                                               \
    {{image, "attention_" #gradient "_bf16"}, {image, "attention_" #gradient "_f16"}}, {          \
      {image, "attention_" #gradient "_pairs_bf16"}, {image, "attention_" #gradient "_pairs_f16"} \
    }                                                                                             \
  }
const Kernels kQuery[2] = {JAXATOR_KERNELS(attention_backward_64, dq), JAXATOR_KERNELS(attention_backward_128, dq)};
const Kernels kKey[2] = {JAXATOR_KERNELS(attention_backward_64, dk), JAXATOR_KERNELS(attention_backward_128, dk)};
const Kernels kValue[2] = {JAXATOR_KERNELS(attention_backward_64, dv), JAXATOR_KERNELS(attention_backward_128, dv)};
#undef JAXATOR_KERNELS
const Kernel kBias[2][2] = {
    {{attention_backward_bias, "attention_bias_64_bf16"}, {attention_backward_bias, "attention_bias_64_f16"}},
    {{attention_backward_bias, "attention_bias_128_bf16"}, {attention_backward_bias, "attention_bias_128_f16"}}};
const Kernel kRows[2] = {{attention_backward_rows, "attention_backward_rows_bf16"},
                         {attention_backward_rows, "attention_backward_rows_f16"}};

int64_t query_rows(const AttentionDesc& desc) { return desc.batch * desc.heads * desc.query_length; }

/// Bytes of one value for each query row, to a multiple of 16.
int64_t values_bytes(const AttentionDesc& desc) { return round_up(query_rows(desc) * 4, 16); }

BackwardParams parameters_of(const AttentionDesc& desc, const AttentionBackwardArgs& args) {
  constexpr float kLog2E = 1.44269504088896340736f;
  char* const scratch = static_cast<char*>(args.scratch);
  return {.see = rocm::visibility_of(desc, args),
          .q = args.q,
          .k = args.k,
          .v = args.v,
          .out = args.out,
          .dout = args.dout,
          .lse = args.lse,
          .dlse = args.dlse,
          .gradient = nullptr,
          .row_lse = reinterpret_cast<float*>(scratch),
          .row_delta = reinterpret_cast<float*>(scratch + values_bytes(desc)),
          .dbias = desc.bias_gradient ? args.dbias : nullptr,
          .batch = static_cast<int>(desc.batch),
          .heads = static_cast<int>(desc.heads),
          .kv_heads = static_cast<int>(desc.kv_heads),
          .tiles = 0,
          .head_size = static_cast<int>(desc.head_size),
          .value_size = static_cast<int>(desc.value_size),
          .gradient_f32 = 0,
          .scale = desc.scale * kLog2E,
          .factor = desc.scale,
          .pairs = rocm::reads_pairs(desc)};
}

/// One gradient, of `length` rows of each of `heads` heads.
void launch(const Kernels& kernels, BackwardParams p, const AttentionDesc& desc, void* gradient, bool f32, int64_t length,
            int64_t heads, const RocmStream& stream) {
  const int64_t tiles = ceil_div(length, cdna::attention::kGradientRows), blocks = tiles * desc.batch * heads;
  if (blocks == 0) return;
  rocm::require_blocks("batch * heads * tiles of rows", blocks);
  p.gradient = gradient, p.gradient_f32 = f32, p.tiles = static_cast<int>(tiles);
  const Kernel& kernel = (p.pairs ? kernels.pairs : kernels.plain)[desc.type == DType::f16];
  rocm::launch(kernel, {.grid = {blocks, 1, 1}, .block = {512, 1, 1}}, stream, p);
}

/// A wave for each tile of 32 by 32 elements of the bias.
void launch_bias(const BackwardParams& p, const AttentionDesc& desc, const RocmStream& stream) {
  constexpr int64_t kTile = 32, kWavesOfBlock = 4;
  const auto& shape = desc.bias_shape;
  const int64_t tiles = shape[0] * shape[1] * ceil_div(shape[2], kTile) * ceil_div(shape[3], kTile);
  if (tiles == 0) return;
  const int64_t blocks = ceil_div(tiles, kWavesOfBlock);
  rocm::require_blocks("tiles of the bias / 4", blocks);
  const Kernel& kernel = kBias[rocm::native_head(desc) == 128][desc.type == DType::f16];
  rocm::launch(kernel, {.grid = {blocks, 1, 1}, .block = {kWavesOfBlock * 64, 1, 1}}, stream, p);
}

}  // namespace

int64_t attention_rocm_backward_scratch_bytes(const AttentionDesc& desc) { return 2 * values_bytes(desc); }

void attention_backward(const AttentionDesc& desc, const AttentionBackwardArgs& args, const RocmStream& stream) {
  desc.validate();
  rocm::require_rocm_attention(desc);
  const BackwardParams p = parameters_of(desc, args);
  constexpr int64_t kRowsOfBlock = 16;
  if (query_rows(desc) > 0) {
    const int64_t blocks = ceil_div(query_rows(desc), kRowsOfBlock);
    rocm::require_blocks("batch * heads * query_length / 16", blocks);
    rocm::launch(kRows[desc.type == DType::f16], {.grid = {blocks, 1, 1}, .block = {256, 1, 1}}, stream, p);
  }
  const int native = rocm::native_head(desc) == 128;
  const bool f32 = desc.kv_gradients_f32;
  launch(kQuery[native], p, desc, args.dq, false, desc.query_length, desc.heads, stream);
  launch(kKey[native], p, desc, args.dk, f32, desc.key_length, desc.kv_heads, stream);
  launch(kValue[native], p, desc, args.dv, f32, desc.key_length, desc.kv_heads, stream);
  if (desc.bias_gradient) launch_bias(p, desc, stream);
}

}  // namespace jaxator
