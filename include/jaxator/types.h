/// @file
/// Element types and errors shared by every public header.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace jaxator {

/// Element type of an array. The numbers are part of the C interface of the kernel libraries.
enum class DType : int32_t { f32 = 0, bf16 = 1, f16 = 2 };

constexpr int64_t size_of(DType type) { return type == DType::f32 ? 4 : 2; }

constexpr const char* name_of(DType type) {
  return type == DType::f32 ? "float32" : type == DType::bf16 ? "bfloat16" : "float16";
}

/// A request that breaks a documented rule. The text names the argument, its value and the rule.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A legal request that no kernel of the chosen implementation can serve.
class UnsupportedError : public Error {
 public:
  using Error::Error;
};

}  // namespace jaxator
