/// @file
/// What Python asks when it traces an op: sizes of scratch, and for `explain` the config of a call as JSON.
#include <algorithm>

#include "jaxator/attention.h"
#include "src/ffi/c_api.h"
#include "src/ops/layer_norm/config.h"
#include "src/ops/norm_cuda.h"
#include "src/ops/rms_norm/config.h"
#include "src/ops/rope/config.h"
#include "src/ops/rope/cuda_config.h"
#include "src/ops/swiglu/config.h"
#include "src/ops/swiglu/cuda_config.h"

using jaxator::AttentionDesc;
using jaxator::DType;
using jaxator::ffi::copy_text;
using jaxator::ffi::json_text;

// ---- scratch ---------------------------------------------------------------------------------------------------------

JAXATOR_C_API int64_t jaxator_rms_norm_scratch_floats(int64_t dtype, int64_t rows, int64_t columns) {
  return jaxator::rms_norm_scratch_floats(
      {.type = static_cast<jaxator::DType>(dtype), .rows = rows, .columns = columns, .has_weight = true});
}

JAXATOR_C_API int64_t jaxator_rms_norm_cuda_scratch_floats(int64_t dtype, int64_t rows, int64_t columns) {
  return jaxator::rms_norm_cuda_scratch_floats(
      {.type = static_cast<jaxator::DType>(dtype), .rows = rows, .columns = columns, .has_weight = true});
}

JAXATOR_C_API int64_t jaxator_layer_norm_cuda_scratch_floats(int64_t dtype, int64_t rows, int64_t columns, bool has_weight,
                                                             bool has_bias) {
  return jaxator::layer_norm_cuda_scratch_floats({.type = static_cast<jaxator::DType>(dtype),
                                                  .rows = rows,
                                                  .columns = columns,
                                                  .has_weight = has_weight,
                                                  .has_bias = has_bias});
}

JAXATOR_C_API int64_t jaxator_layer_norm_scratch_floats(int64_t dtype, int64_t rows, int64_t columns, bool has_weight,
                                                        bool has_bias) {
  return jaxator::layer_norm_scratch_floats({.type = static_cast<jaxator::DType>(dtype),
                                             .rows = rows,
                                             .columns = columns,
                                             .has_weight = has_weight,
                                             .has_bias = has_bias});
}

namespace {

/// Sizes as Python states them: dtype, B, T, S, N, K, H, V, then the four of the bias.
AttentionDesc sized(const int64_t* numbers) {
  AttentionDesc desc;
  desc.type = static_cast<DType>(numbers[0]);
  desc.batch = numbers[1], desc.query_length = numbers[2], desc.key_length = numbers[3];
  desc.heads = numbers[4], desc.kv_heads = numbers[5], desc.head_size = numbers[6], desc.value_size = numbers[7];
  for (int i = 0; i < 4; i++) desc.bias_shape[i] = numbers[8 + i];
  return desc;
}

}  // namespace

#define JAXATOR_SIZES                                                                                              \
  int64_t dtype, int64_t batch, int64_t queries, int64_t keys, int64_t heads, int64_t kv_heads, int64_t head_size, \
      int64_t value_size, int64_t bias0, int64_t bias1, int64_t bias2, int64_t bias3

JAXATOR_C_API int64_t jaxator_attention_slots(JAXATOR_SIZES, int64_t, int64_t) {
  const int64_t numbers[] = {dtype, batch, queries, keys, heads, kv_heads, head_size, value_size, bias0, bias1, bias2, bias3};
  return jaxator::attention_slots(sized(numbers));
}

JAXATOR_C_API int64_t jaxator_attention_scratch_bytes(JAXATOR_SIZES, int64_t bias_gradient, int64_t backward, int64_t slots) {
  const int64_t numbers[] = {dtype, batch, queries, keys, heads, kv_heads, head_size, value_size, bias0, bias1, bias2, bias3};
  jaxator::AttentionDesc desc = sized(numbers);
  desc.bias_gradient = bias_gradient != 0;
  return backward ? jaxator::attention_backward_scratch_bytes(desc, slots)
                  : jaxator::attention_forward_scratch_bytes(desc, slots);
}

JAXATOR_C_API int64_t jaxator_attention_cuda_backward_scratch_bytes(JAXATOR_SIZES) {
  const int64_t numbers[] = {dtype, batch, queries, keys, heads, kv_heads, head_size, value_size, bias0, bias1, bias2, bias3};
  return jaxator::attention_cuda_backward_scratch_bytes(sized(numbers));
}

JAXATOR_C_API int64_t jaxator_attention_rocm_backward_scratch_bytes(JAXATOR_SIZES) {
  const int64_t numbers[] = {dtype, batch, queries, keys, heads, kv_heads, head_size, value_size, bias0, bias1, bias2, bias3};
  return jaxator::attention_rocm_backward_scratch_bytes(sized(numbers));
}

/// Query-key pairs that a causal window of `left` keys (-1: all) leaves visible, or (visited) that the forward kernel computes.
JAXATOR_C_API int64_t jaxator_attention_pairs(int64_t visited, int64_t dtype, int64_t batch, int64_t length, int64_t heads,
                                              int64_t kv_heads, int64_t head_size, int64_t left) {
  AttentionDesc desc{.type = static_cast<DType>(dtype),
                     .batch = batch,
                     .query_length = length,
                     .key_length = length,
                     .heads = heads,
                     .kv_heads = kv_heads,
                     .head_size = head_size,
                     .value_size = head_size};
  desc.causal = true;
  desc.window_left = left;
  const jaxator::AttentionPairs pairs = jaxator::attention_visited(desc);
  return visited != 0 ? pairs.visited : pairs.useful;
}

// ---- for explain: `jaxator_<op>_describe(numbers, out, capacity)` writes the config of a call as JSON ----------------------

namespace {

/// One JSON object, written field by field.
class Object {
 public:
  Object& field(const char* name, const std::string& json) {
    text_ += (text_.empty() ? "\"" : ", \"") + std::string(name) + "\": " + json;
    return *this;
  }
  Object& field(const char* name, int64_t value) { return field(name, std::to_string(value)); }
  Object& flag(const char* name, bool value) { return field(name, value ? std::string("true") : std::string("false")); }
  int write(char* out, int capacity) const { return copy_text("{" + text_ + "}", out, capacity); }

 private:
  std::string text_;
};

/// Configs of the norms have the same fields.
template <class Desc> int describe_norm(const Desc& desc, char* out, int capacity) {
  const auto config = pick_config(desc, jaxator::cpu_features());
  return Object()
      .field("forward_rows_per_task", config.forward_rows)
      .field("forward_tasks", (desc.rows + config.forward_rows - 1) / config.forward_rows)
      .field("backward_rows_per_task", config.backward_rows)
      .field("backward_tasks", config.backward_tasks)
      .flag("streaming_stores", config.stream)
      .write(out, capacity);
}

/// What the CUDA kernels of the norms do with arrays at addresses that are multiples of 16.
int describe_cuda_norm(const jaxator::NormCudaKernels& kernels, DType type, int64_t rows, int64_t columns, int backward_arrays,
                       char* out, int capacity) {
  using namespace jaxator;
  const NormCudaConfig forward = norm_cuda::forward(kernels, type, rows, columns, {});
  const NormCudaConfig backward =
      norm_cuda::backward(kernels, type, rows, columns, norm_cuda::in_vectors(type, columns, {}), backward_arrays);
  return Object()
      .field("forward_vectors_per_thread", forward.vectors)
      .field("forward_threads_per_row", forward.threads)
      .field("forward_blocks", forward.blocks)
      .field("backward_vectors_per_thread", backward.vectors)
      .field("backward_threads_per_row", backward.threads)
      .field("backward_blocks", backward.blocks)
      .field("backward_stages", backward.stages)
      .write(out, capacity);
}

}  // namespace

/// numbers: dtype, rows, columns, has_residual, has_weight.
JAXATOR_C_API int jaxator_rms_norm_describe(const int64_t* n, char* out, int capacity) {
  return describe_norm(jaxator::RmsNormDesc{.type = static_cast<jaxator::DType>(n[0]),
                                            .rows = n[1],
                                            .columns = n[2],
                                            .has_residual = n[3] != 0,
                                            .has_weight = n[4] != 0},
                       out, capacity);
}

/// numbers: dtype, rows, columns, has_weight, has_bias.
JAXATOR_C_API int jaxator_layer_norm_describe(const int64_t* n, char* out, int capacity) {
  return describe_norm(jaxator::LayerNormDesc{.type = static_cast<jaxator::DType>(n[0]),
                                              .rows = n[1],
                                              .columns = n[2],
                                              .has_weight = n[3] != 0,
                                              .has_bias = n[4] != 0},
                       out, capacity);
}

/// numbers as for jaxator_rms_norm_describe.
JAXATOR_C_API int jaxator_rms_norm_cuda_describe(const int64_t* n, char* out, int capacity) {
  return describe_cuda_norm(jaxator::norm_cuda::kRmsNorm, static_cast<jaxator::DType>(n[0]), n[1], n[2], n[3] != 0 ? 3 : 2, out,
                            capacity);
}

/// numbers as for jaxator_layer_norm_describe.
JAXATOR_C_API int jaxator_layer_norm_cuda_describe(const int64_t* n, char* out, int capacity) {
  return describe_cuda_norm(jaxator::norm_cuda::kLayerNorm, static_cast<jaxator::DType>(n[0]), n[1], n[2], 2, out, capacity);
}

/// numbers: dtype, rows, columns of y, packed.
JAXATOR_C_API int jaxator_swiglu_describe(const int64_t* n, char* out, int capacity) {
  using namespace jaxator;
  const SwigluDesc desc{.type = static_cast<DType>(n[0]), .rows = n[1], .columns = n[2], .packed = n[3] != 0};
  const SwigluConfig config = pick_config(desc, cpu_features());
  return Object()
      .field("elements_per_task", config.piece * config.task_pieces)
      .field("tasks", (config.pieces + config.task_pieces - 1) / std::max<int64_t>(1, config.task_pieces))
      .flag("streaming_stores", config.stream)
      .write(out, capacity);
}

/// numbers as for jaxator_swiglu_describe.
JAXATOR_C_API int jaxator_swiglu_cuda_describe(const int64_t* n, char* out, int capacity) {
  using namespace jaxator;
  const SwigluCudaConfig config =
      pick_cuda_config({.type = static_cast<DType>(n[0]), .rows = n[1], .columns = n[2], .packed = n[3] != 0}, /*aligned=*/true);
  return Object()
      .flag("vectors", config.vectors)
      .field("threads", config.threads * config.rows_per_block)
      .field("blocks", config.blocks)
      .write(out, capacity);
}

/// numbers: dtype, rows, heads, columns of a head, rows of angles.
JAXATOR_C_API int jaxator_rope_describe(const int64_t* n, char* out, int capacity) {
  using namespace jaxator;
  const RopeDesc desc{.type = static_cast<DType>(n[0]), .rows = n[1], .heads = n[2], .columns = n[3], .angle_rows = n[4]};
  const RopeConfig config = pick_config(desc, cpu_features());
  return Object()
      .field("rows_per_task", config.task_rows)
      .field("tasks", (desc.rows + config.task_rows - 1) / config.task_rows)
      .flag("streaming_stores", config.stream)
      .write(out, capacity);
}

/// numbers as for jaxator_rope_describe.
JAXATOR_C_API int jaxator_rope_cuda_describe(const int64_t* n, char* out, int capacity) {
  using namespace jaxator;
  const RopeCudaConfig config = pick_cuda_config(
      {.type = static_cast<DType>(n[0]), .rows = n[1], .heads = n[2], .columns = n[3], .angle_rows = n[4]}, /*aligned=*/true);
  return Object()
      .flag("vectors", config.vectors)
      .field("threads", config.unit_threads * config.heads * config.rows)
      .field("rows_per_block", config.rows_per_block())
      .field("blocks", config.blocks * config.turns)
      .write(out, capacity);
}

/// numbers: the sizes, causal, bottom_right, window_left, window_right, has_bias, bias_gradient, dot. JSON, or {}
/// for a request that no kernel serves.
JAXATOR_C_API int jaxator_attention_describe(const int64_t* numbers, char* out, int capacity) {
  jaxator::AttentionDesc desc = sized(numbers);
  const int64_t* options = numbers + 12;
  desc.causal = options[0] != 0, desc.causal_bottom_right = options[1] != 0;
  desc.window_left = options[2], desc.window_right = options[3];
  desc.has_bias = options[4] != 0, desc.bias_gradient = options[5] != 0;
  desc.dot = static_cast<jaxator::AttentionDot>(options[6]);
  std::string text = "{}";
  try {
    text = jaxator::attention_describe(desc);
  } catch (const jaxator::Error&) {
  }
  return std::snprintf(out, capacity, "%s", text.c_str());
}
