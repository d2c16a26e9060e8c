/// @file
/// C functions that Python calls through ctypes: what this library is, what the CPU offers, which kernels are in use.
#include "jaxator/cpu.h"
#include "src/ffi/c_api.h"
#include "src/ffi/ffi.h"

using jaxator::ffi::copy_text;
using jaxator::ffi::json_text;

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

/// JSON: why the CUDA driver cannot be used ("" if it can), the devices, the images of this build.
JAXATOR_C_API int jaxator_cuda_report(char* out, int capacity) {
  using namespace jaxator;
  std::string text = "{\"problem\": " + json_text(cuda_problem()) + ", \"devices\": [";
  const char* comma = "";
  for (const CudaDevice& d : cuda_devices()) {
    text += comma + std::string("{\"name\": ") + json_text(d.name) + ", \"capability\": \"" + std::to_string(d.major) + "." +
            std::to_string(d.minor) + "\", \"multiprocessors\": " + std::to_string(d.multiprocessors) + "}";
    comma = ", ";
  }
  text += "], \"images\": [";
  comma = "";
  for (const std::string& image : cuda_images()) text += comma + json_text(image), comma = ", ";
  return copy_text(text + "]}", out, capacity);
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

/// Registered for platforms whose kernels are not in this build.
JAXATOR_C_API XLA_FFI_Error* jaxator_no_kernels(XLA_FFI_CallFrame* frame) {
  static const auto* handler =
      xla::ffi::Ffi::Bind()
          .RemainingArgs()
          .RemainingRets()
          .Attrs()
          .To([](xla::ffi::RemainingArgs, xla::ffi::RemainingRets, xla::ffi::Dictionary) {
            return xla::ffi::Error(xla::ffi::ErrorCode::kUnimplemented,
                                   "jaxator: this build has no kernels for this GPU platform; use implementation=\"xla\"");
          })
          .release();
  return handler->Call(frame);
}
