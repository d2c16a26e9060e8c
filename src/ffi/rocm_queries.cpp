/// @file
/// What Python asks about ROCm: devices and images, sizes of scratch, and for `explain` the config of a call as JSON.
#include "jaxator/rms_norm.h"
#include "jaxator/rocm.h"
#include "src/ffi/c_api.h"
#include "src/ops/norm_rocm.h"

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

/// numbers: dtype, rows, columns, has_residual, has_weight. For arrays at addresses that are multiples of 16.
JAXATOR_C_API int jaxator_rms_norm_rocm_describe(const int64_t* n, char* out, int capacity) {
  const auto type = static_cast<DType>(n[0]);
  return copy_text("{" + describe("forward", norm_rocm::forward(type, n[1], n[2], {})) + ", " +
                       describe("backward", norm_rocm::backward(type, n[1], n[2], norm_rocm::in_vectors(type, n[2], {}))) + "}",
                   out, capacity);
}
