/// @file
/// What Python asks about a matmul when it traces one.
#include <cstdio>

#include "jaxator/matmul.h"
#include "src/ffi/c_api.h"

namespace {

constexpr int kNumbers = 16;

/// n: dtype, batch, sum, m, n, k, transpose_a, transpose_b, batch_a, batch_b, sum_a, sum_b, batch_bias, route, formats of eight
/// bits of a and b.
jaxator::MatmulDesc desc_of(const int64_t* n) {
  const auto type = static_cast<jaxator::DType>(n[0]);
  return {.type = type,
          .out_type = type,
          .batch = n[1],
          .sum = n[2],
          .m = n[3],
          .n = n[4],
          .k = n[5],
          .transpose_a = n[6] != 0,
          .transpose_b = n[7] != 0,
          .batch_a = n[8] != 0,
          .batch_b = n[9] != 0,
          .sum_a = n[10] != 0,
          .sum_b = n[11] != 0,
          .has_bias = n[12] != 0,
          .batch_bias = n[12] != 0,
          .route = static_cast<jaxator::MatmulRoute>(n[13]),
          .eight_a = static_cast<jaxator::EightBits>(n[14]),
          .eight_b = static_cast<jaxator::EightBits>(n[15])};
}

/// A request that no kernel serves is {}.
template <class Describe> int write(Describe&& describe, char* out, int capacity) {
  std::string text = "{}";
  try {
    text = describe();
  } catch (const jaxator::Error&) {
  }
  return std::snprintf(out, static_cast<size_t>(capacity), "%s", text.c_str());
}

}  // namespace

JAXATOR_C_API int64_t jaxator_matmul_slots(const int64_t* n) { return jaxator::matmul_slots(desc_of(n)); }
JAXATOR_C_API int64_t jaxator_matmul_scratch_bytes(const int64_t* n, int64_t slots) {
  return jaxator::matmul_scratch_bytes(desc_of(n), slots);
}
JAXATOR_C_API int64_t jaxator_matmul_cuda_scratch_bytes(const int64_t* n) {
  return jaxator::matmul_cuda_scratch_bytes(desc_of(n));
}
JAXATOR_C_API int64_t jaxator_matmul_rocm_scratch_bytes(const int64_t* n) {
  return jaxator::matmul_rocm_scratch_bytes(desc_of(n));
}
JAXATOR_C_API int jaxator_matmul_describe(const int64_t* n, char* out, int capacity) {
  return write([&] { return jaxator::matmul_describe(desc_of(n)); }, out, capacity);
}
JAXATOR_C_API int jaxator_matmul_cuda_describe(const int64_t* n, char* out, int capacity) {
  return write([&] { return jaxator::matmul_cuda_describe(desc_of(n)); }, out, capacity);
}
/// Followed by the architecture's number.
JAXATOR_C_API int jaxator_matmul_rocm_describe(const int64_t* n, char* out, int capacity) {
  return write([&] { return jaxator::matmul_rocm_describe(desc_of(n), static_cast<jaxator::RocmArchitecture>(n[kNumbers])); },
               out, capacity);
}
