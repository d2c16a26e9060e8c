/// @file
/// C functions that Python calls through ctypes: what this library is, what the CPU offers, which kernels are in use.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>

#include "jaxator/attention.h"
#include "jaxator/cpu.h"
#include "jaxator/rms_norm.h"
#include "src/ffi/ffi.h"
#include "src/runtime/cpu_kernels.h"

#define JAXATOR_C_API extern "C" __attribute__((visibility("default")))

namespace {

/// Copies text (cut to fit) and returns its whole length, as snprintf does.
int copy_text(const std::string& text, char* out, int capacity) { return std::snprintf(out, capacity, "%s", text.c_str()); }

std::string json_text(const std::string& text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (static_cast<unsigned char>(c) >= 32) result += c;
  }
  return result + "\"";
}

}  // namespace

JAXATOR_C_API int64_t jaxator_attribute_version() { return jaxator::ffi::kAttributeVersion; }

/// JSON: vendor, brand, family, model, features, supported and selected instruction sets.
JAXATOR_C_API int jaxator_cpu_report(char* out, int capacity) {
  using namespace jaxator;
  const CpuFeatures& f = cpu_features();
  std::string text = "{\"vendor\": " + json_text(f.vendor) + ", \"brand\": " + json_text(f.brand) +
                     ", \"family\": " + std::to_string(f.family) + ", \"model\": " + std::to_string(f.model) +
                     ", \"fast_bf16_dot\": " + (f.fast_bf16_dot ? "true" : "false") +
                     ", \"last_level_cache_bytes\": " + std::to_string(f.last_level_cache_bytes) + ", \"supported\": [";
  const std::vector<CpuIsa> supported = cpu_supported();
  for (size_t i = 0; i < supported.size(); i++) text += std::string(i ? ", " : "") + json_text(name_of(supported[i]));
  text += std::string("], \"selected\": ") + (supported.empty() ? "null" : json_text(name_of(cpu_isa()))) + "}";
  return copy_text(text, out, capacity);
}

/// Index of CpuIsa, or -1 for the choice by CPU model. Returns 0, or writes the error and returns 1.
JAXATOR_C_API int jaxator_cpu_force_isa(int isa, char* error, int capacity) {
  try {
    if (isa < 0)
      jaxator::cpu_reset_isa();
    else if (isa < jaxator::kCpuIsaCount)
      jaxator::cpu_force_isa(static_cast<jaxator::CpuIsa>(isa));
    else
      throw jaxator::Error("isa=" + std::to_string(isa) + ": must be below " + std::to_string(jaxator::kCpuIsaCount));
    return 0;
  } catch (const jaxator::Error& failure) {
    copy_text(failure.what(), error, capacity);
    return 1;
  }
}

JAXATOR_C_API int64_t jaxator_rms_norm_scratch_floats(int64_t dtype, int64_t rows, int64_t columns) {
  return jaxator::rms_norm_scratch_floats(
      {.type = static_cast<jaxator::DType>(dtype), .rows = rows, .columns = columns, .has_weight = true});
}

// ---- for explain: `jaxator_<op>_describe(numbers, out, capacity)` writes the config of a call as JSON ----------------------

namespace {

/// One JSON object, written field by field.
class Object {
 public:
  Object() { field("isa", json_text(name_of(jaxator::cpu_isa()))); }
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

}  // namespace

/// numbers: dtype, rows, columns, has_residual, has_weight.
JAXATOR_C_API int jaxator_rms_norm_describe(const int64_t* n, char* out, int capacity) {
  return describe_norm(jaxator::RmsNormDesc{.type = static_cast<jaxator::DType>(n[0]), .rows = n[1], .columns = n[2],
                                            .has_residual = n[3] != 0, .has_weight = n[4] != 0}, out, capacity);
}

/// numbers: dtype, rows, columns, has_weight, has_bias.
JAXATOR_C_API int jaxator_layer_norm_describe(const int64_t* n, char* out, int capacity) {
  return describe_norm(jaxator::LayerNormDesc{.type = static_cast<jaxator::DType>(n[0]), .rows = n[1], .columns = n[2],
                                              .has_weight = n[3] != 0, .has_bias = n[4] != 0}, out, capacity);
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

// ---- for measurements: the work of windows, and the limits that kernels are compared with, each with all threads -----------

/// Query-key pairs that a causal window of `left` keys (-1: all) leaves visible, or (visited) that the forward kernel computes.
JAXATOR_C_API int64_t jaxator_attention_pairs(int64_t visited, int64_t dtype, int64_t batch, int64_t length, int64_t heads,
                                              int64_t kv_heads, int64_t head_size, int64_t left) {
  using namespace jaxator;
  AttentionDesc desc{.type = static_cast<DType>(dtype), .batch = batch, .query_length = length, .key_length = length, .heads = heads,
                     .kv_heads = kv_heads, .head_size = head_size, .value_size = head_size};
  desc.causal = true;
  desc.window_left = left;
  const AttentionPairs pairs = attention_visited(desc);
  return visited != 0 ? pairs.visited : pairs.useful;
}

/// Nanoseconds of one memcpy dealt to `threads` threads.
JAXATOR_C_API int64_t jaxator_copy_nanoseconds(int64_t to, int64_t from, int64_t bytes, int64_t threads) {
  using Clock = std::chrono::steady_clock;
  jaxator::ThreadPool pool(static_cast<int>(threads));
  const int64_t share = (bytes + threads - 1) / threads;
  auto body = [&](int64_t task, int64_t) {
    const int64_t begin = task * share, size = std::min(share, bytes - begin);
    if (size > 0) std::memcpy(reinterpret_cast<char*>(to) + begin, reinterpret_cast<const char*>(from) + begin, static_cast<size_t>(size));
  };
  const auto start = Clock::now();
  pool.parallel_for(threads, threads, body);
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
}

/// Flops a second of products that never leave the registers, float32 FMA or bfloat16 dot, summed over `threads` threads that
/// run for about `microseconds` at the same time. 0 where the instruction is missing.
JAXATOR_C_API int64_t jaxator_peak_flops(int64_t bf16_dot, int64_t microseconds, int64_t threads) {
  jaxator::ThreadPool pool(static_cast<int>(threads));
  const jaxator::CpuKernels& kernels = jaxator::cpu_kernels();
  std::atomic<int64_t> total{0};
  auto body = [&](int64_t, int64_t) {
    total += static_cast<int64_t>(kernels.peak_flops(bf16_dot != 0, static_cast<double>(microseconds) * 1e-6));
  };
  pool.parallel_for(threads, threads, body);
  return total;
}

/// Registered for platforms whose kernels are not in this build.
JAXATOR_C_API XLA_FFI_Error* jaxator_no_kernels(XLA_FFI_CallFrame* frame) {
  static const auto* handler = xla::ffi::Ffi::Bind().RemainingArgs().RemainingRets().Attrs().To(
      [](xla::ffi::RemainingArgs, xla::ffi::RemainingRets, xla::ffi::Dictionary) {
        return xla::ffi::Error(xla::ffi::ErrorCode::kUnimplemented,
                               "jaxator: this build has no kernels for this GPU platform; use implementation=\"xla\"");
      }).release();
  return handler->Call(frame);
}
