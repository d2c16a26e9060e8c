/// @file
/// What Python asks about ROCm: devices and images, sizes of scratch, and for `explain` the config of a call as JSON.
#include "jaxator/layer_norm.h"
#include "jaxator/rms_norm.h"
#include "jaxator/rocm.h"
#include "src/ffi/c_api.h"
#include "src/ops/norm_rocm.h"
#include "src/ops/rope/rocm_config.h"
#include "src/ops/swiglu/rocm_config.h"

using namespace jaxator;
using ffi::copy_text;
using ffi::json_text;

namespace {

template <class Items, class Text> std::string list(const Items& items, Text&& text) {
  std::string json = "[";
  for (const auto& item : items) json += (json.size() == 1 ? "" : ", ") + text(item);
  return json + "]";
}

std::string describe(const RocmDevice& d) {
  return "{\"name\": " + json_text(d.name) + ", \"architecture\": " + json_text(d.architecture) +
         ", \"compute_units\": " + std::to_string(d.compute_units) + "}";
}

std::string describe(const char* direction, const NormRocmConfig& config) {
  const std::string name = std::string("\"") + direction;
  return name + "_vectors_per_thread\": " + std::to_string(config.vectors) + ", " + name +
         "_threads_per_row\": " + std::to_string(config.threads) + ", " + name + "_blocks\": " + std::to_string(config.blocks);
}

/// numbers: dtype, rows, columns. For arrays at addresses that are multiples of 16, here and below.
int describe_norm(const int64_t* n, char* out, int capacity) {
  const auto type = static_cast<DType>(n[0]);
  return copy_text("{" + describe("forward", norm_rocm::forward(type, n[1], n[2], {})) + ", " +
                       describe("backward", norm_rocm::backward(type, n[1], n[2], norm_rocm::in_vectors(type, n[2], {}))) + "}",
                   out, capacity);
}

int write(bool vectors, const std::vector<std::pair<const char*, int64_t>>& fields, char* out, int capacity) {
  std::string text = std::string("{\"vectors\": ") + (vectors ? "true" : "false");
  for (const auto& [name, value] : fields) text += std::string(", \"") + name + "\": " + std::to_string(value);
  return copy_text(text + "}", out, capacity);
}

}  // namespace

/// JSON: why HIP and the emulator cannot be used ("" if they can), the devices of this machine, the images of this build.
JAXATOR_C_API int jaxator_rocm_report(char* out, int capacity) {
  return copy_text("{\"problem\": " + json_text(rocm_problem()) + ", \"emulator_problem\": " + json_text(rocm_problem(true)) +
                       ", \"devices\": " + list(rocm_devices(), [](const RocmDevice& d) { return describe(d); }) +
                       ", \"images\": " + list(rocm_images(), json_text) + "}",
                   out, capacity);
}

JAXATOR_C_API int64_t jaxator_rms_norm_rocm_scratch_floats(int64_t dtype, int64_t rows, int64_t columns) {
  return rms_norm_rocm_scratch_floats({.type = static_cast<DType>(dtype), .rows = rows, .columns = columns, .has_weight = true});
}

JAXATOR_C_API int64_t jaxator_layer_norm_rocm_scratch_floats(int64_t dtype, int64_t rows, int64_t columns, int64_t has_weight,
                                                             int64_t has_bias) {
  return layer_norm_rocm_scratch_floats({.type = static_cast<DType>(dtype),
                                         .rows = rows,
                                         .columns = columns,
                                         .has_weight = has_weight != 0,
                                         .has_bias = has_bias != 0});
}

/// numbers as for jaxator_rms_norm_describe and jaxator_layer_norm_describe.
JAXATOR_C_API int jaxator_rms_norm_rocm_describe(const int64_t* n, char* out, int capacity) {
  return describe_norm(n, out, capacity);
}
JAXATOR_C_API int jaxator_layer_norm_rocm_describe(const int64_t* n, char* out, int capacity) {
  return describe_norm(n, out, capacity);
}

/// numbers as for jaxator_swiglu_describe.
JAXATOR_C_API int jaxator_swiglu_rocm_describe(const int64_t* n, char* out, int capacity) {
  const SwigluDesc desc{.type = static_cast<DType>(n[0]), .rows = n[1], .columns = n[2], .packed = n[3] != 0};
  if (desc.rows == 0 || desc.columns == 0) return write(false, {{"blocks", 0}}, out, capacity);
  const SwigluRocmConfig config = pick_rocm_config(desc, /*aligned=*/true);
  return write(config.vectors, {{"threads", config.threads * config.rows_per_block}, {"blocks", config.blocks * config.pieces}},
               out, capacity);
}

/// numbers as for jaxator_rope_describe.
JAXATOR_C_API int jaxator_rope_rocm_describe(const int64_t* n, char* out, int capacity) {
  const RopeDesc desc{.type = static_cast<DType>(n[0]), .rows = n[1], .heads = n[2], .columns = n[3], .angle_rows = n[4]};
  if (desc.rows == 0 || desc.heads == 0 || desc.columns == 0) return write(false, {{"blocks", 0}}, out, capacity);
  const RopeRocmConfig config = pick_rocm_config(desc, /*aligned=*/true);
  return write(config.vectors,
               {{"threads", config.unit_threads * config.heads * config.rows},
                {"rows_per_block", config.rows_per_block()},
                {"blocks", config.blocks * config.turns}},
               out, capacity);
}
