/// @file
/// The public functions: check, decide, launch.
#include <cmath>
#include <cstring>

#include "src/ops/attention/config.h"
#include "src/ops/attention/visibility.h"
#include "src/runtime/cpu_kernels.h"

namespace jaxator {
namespace {

[[noreturn]] void refuse(const char* name, int64_t value, const std::string& rule) {
  throw Error(std::string(name) + "=" + std::to_string(value) + ": " + rule);
}

void check_size(const char* name, int64_t value, int64_t low, int64_t high) {
  if (value < low || value > high) refuse(name, value, "must be in " + std::to_string(low) + ".." + std::to_string(high));
}

void check_broadcast(const char* name, const int64_t (&shape)[4], const AttentionDesc& desc) {
  const int64_t full[4] = {desc.batch, desc.heads, desc.query_length, desc.key_length};
  for (int i = 0; i < 4; i++)
    if (shape[i] != 1 && shape[i] != full[i])
      throw Error(std::string(name) + "[" + std::to_string(i) + "]=" + std::to_string(shape[i]) + ": must be 1 or " +
                  std::to_string(full[i]));
}

void zero(void* p, int64_t bytes) {
  if (bytes > 0) std::memset(p, 0, static_cast<size_t>(bytes));
}

}  // namespace

void AttentionDesc::validate() const {
  constexpr int64_t kFar = int64_t{1} << 30;  // key positions are 32-bit lanes, and sums of two of them fit
  check_size("batch", batch, 0, INT64_MAX);
  check_size("query_length", query_length, 0, kFar);
  check_size("key_length", key_length, 0, kFar);
  check_size("heads", heads, 0, kFar);
  check_size("kv_heads", kv_heads, 0, kFar);
  check_size("head_size", head_size, 1, 256);
  check_size("value_size", value_size, 1, 256);
  if (kv_heads == 0 ? heads != 0 : heads % kv_heads != 0)
    refuse("heads", heads, "must be a multiple of kv_heads=" + std::to_string(kv_heads));
  if (!std::isfinite(scale)) throw Error("scale=" + std::to_string(scale) + ": must be finite");
  if (window_left < -1) refuse("window_left", window_left, "must be -1 (unbounded) or not negative");
  if (window_right < -1) refuse("window_right", window_right, "must be -1 (unbounded) or not negative");
  if (has_bias) check_broadcast("bias_shape", bias_shape, *this);
  if (has_mask) check_broadcast("mask_shape", mask_shape, *this);
  if (bias_gradient && !has_bias) throw Error("bias_gradient=true: needs a bias");
}

void attention_forward(const AttentionDesc& desc, const AttentionForwardArgs& args, int64_t slots, Executor& executor) {
  desc.validate();
  if (slots < 1) refuse("slots", slots, "must be positive");
  const AttentionConfig config = pick_config(desc, cpu_features(), cpu_isa());
  if (desc.batch == 0 || rows_of(desc) == 0) return;
  cpu_kernels().attention_forward(desc, config, args, slots, executor);
}

void attention_backward(const AttentionDesc& desc, const AttentionBackwardArgs& args, int64_t slots, Executor& executor) {
  desc.validate();
  if (slots < 1) refuse("slots", slots, "must be positive");
  const AttentionConfig config = pick_config(desc, cpu_features(), cpu_isa());
  if (desc.bias_gradient) {
    const auto& shape = desc.bias_shape;
    zero(args.dbias, shape[0] * shape[1] * shape[2] * shape[3] * 4);
  }
  if (desc.batch == 0) return;
  if (rows_of(desc) == 0) {
    const int64_t keys = desc.batch * desc.key_length * desc.kv_heads;
    zero(args.dk, keys * desc.head_size * size_of(desc.kv_gradients_f32 ? DType::f32 : desc.type));
    zero(args.dv, keys * desc.value_size * size_of(desc.kv_gradients_f32 ? DType::f32 : desc.type));
    return;
  }
  cpu_kernels().attention_backward(desc, config, args, slots, executor);
}

AttentionPairs attention_visited(const AttentionDesc& desc) {
  desc.validate();
  const AttentionConfig config = pick_config(desc, cpu_features(), cpu_isa());
  const BatchLimits limits = limits_of(desc, nullptr, nullptr, 0);
  const int64_t group = heads_per_group(desc), rows = rows_of(desc), tile = config.tile_columns();
  AttentionPairs pairs;
  for (int64_t t = 0; t < desc.query_length; t++) {
    const KeySpan keys = keys_of_query(desc, limits, t);
    if (!keys.empty()) pairs.useful += (keys.end - keys.begin) * desc.heads;
  }
  for (int64_t row = 0; row < rows; row += tile) {
    const KeySpan keys = keys_of_tile(desc, limits, row / group, (std::min(rows, row + tile) - 1) / group);
    pairs.visited += (keys.end - keys.begin) * tile * desc.kv_heads;
  }
  pairs.useful *= desc.batch;
  pairs.visited *= desc.batch;
  return pairs;
}

std::string attention_describe(const AttentionDesc& desc) {
  desc.validate();
  const CpuIsa isa = cpu_isa();
  const AttentionConfig config = pick_config(desc, cpu_features(), isa);
  const auto field = [](const char* name, int64_t value) { return std::string(", \"") + name + "\": " + std::to_string(value); };
  return std::string("{\"kernel\": \"") + (config.dot == AttentionDot::bf16 ? "flash_bf16dot" : "flash_f32") + "\", \"isa\": \"" +
         name_of(isa) + "\"" + field("query_tile", config.tile_columns()) + field("forward_key_tile", config.forward_key_tile) +
         field("forward_task_rows", config.forward_rows) + field("backward_key_tile", config.backward_key_tile) +
         field("backward_task_rows", config.backward_rows) + field("backward_parts", config.parts) +
         field("slots", attention_slots(desc)) + "}";
}

}  // namespace jaxator
