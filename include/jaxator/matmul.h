/// @file
/// Matrix products with what usually follows them in one pass.
///   z[i] = sum over j of op(a[i,j]) op(b[i,j]) + bias[i]      op transposes or not; products and sums in float32
///   out[i] = activation(z[i]) + residual[i]                   rounded once, to out's type
/// for each matrix i of a batch; j is for gradients of operands that a batch shares.
#pragma once

#include <string>

#include "jaxator/cuda.h"
#include "jaxator/executor.h"
#include "jaxator/rocm.h"
#include "jaxator/types.h"

namespace jaxator {

/// gelu is x * Phi(x); gelu_tanh its approximation x/2 * (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) (Hendrycks and Gimpel 2016,
/// arXiv:1606.08415).
enum class Activation : int32_t { none = 0, relu = 1, silu = 2, gelu = 3, gelu_tanh = 4 };

/// How products are computed. By target: the CPU's float32 FMA or, where it is faster, its bfloat16 dot; on a GPU the matrix
/// unit in the operands' 16-bit type. tf32 rounds float32 operands to 11 significant bits and is only used by name.
enum class MatmulRoute : int32_t { by_target = 0, f32 = 1, bf16_dot = 2, tf32 = 3 };

/// Operands of eight bits in OCP's formats: E4M3 (largest 448, no infinity) and E5M2.
enum class EightBits : int32_t { no = 0, e4m3 = 1, e5m2 = 2 };
/// Factors of an operand: one, or one for each of its rows, which are the m of a and the n of b.
enum class Scales : int32_t { none = 0, one = 1, each = 2 };

/// What is asked. Arrays are row-major: a [batch, sum, m, k] or transposed [batch, sum, k, m], b [batch, sum, k, n] or transposed
/// [batch, sum, n, k], bias float32 [batch, n], residual, preactivation and out [batch, m, n].
struct MatmulDesc {
  DType type = DType::f32;      // of a, b, residual, preactivation
  DType out_type = DType::f32;  // type or float32
  int64_t batch = 1;
  int64_t sum = 1;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  bool transpose_a = false;
  bool transpose_b = false;
  // Whether an operand has the dimension; without it, it is the same for all.
  bool batch_a = true;
  bool batch_b = true;
  bool sum_a = true;
  bool sum_b = true;

  bool has_bias = false;
  bool batch_bias = false;
  Activation activation = Activation::none;
  bool has_residual = false;
  bool has_preactivation = false;  // z is a result too

  MatmulRoute route = MatmulRoute::by_target;

  // Both operands have eight bits or none: type is bfloat16 then, there is no sum and no preactivation, and the product is
  // multiplied by the scales, before anything else: float32, a's [batch (if a has it), m], b's [batch (if b has it), n].
  EightBits eight_a = EightBits::no;
  EightBits eight_b = EightBits::no;
  Scales scales_a = Scales::none;
  Scales scales_b = Scales::none;

  bool eight_bits() const { return eight_a != EightBits::no; }
  /// Of an element of a or b.
  int64_t element_bytes() const { return eight_bits() ? 1 : size_of(type); }

  /// Throws Error, naming the field, its value and the rule.
  void validate() const;
};

/// Pointers that the desc does not ask for may be null.
struct MatmulArgs {
  const void* a = nullptr;
  const void* b = nullptr;
  const float* scales_a = nullptr;
  const float* scales_b = nullptr;
  const float* bias = nullptr;
  const void* residual = nullptr;
  void* out = nullptr;
  void* preactivation = nullptr;
  void* scratch = nullptr;  // CPU: 64-byte aligned, matmul_scratch_bytes(desc, slots); GPUs: matmul_cuda_scratch_bytes(desc), ...
};

/// Pieces of scratch worth having, and the bytes of `slots` of them, enough for every instruction set and route. Decided by the
/// shape alone; results do not depend on slots.
int64_t matmul_slots(const MatmulDesc& desc);
int64_t matmul_scratch_bytes(const MatmulDesc& desc, int64_t slots);
/// Bytes for the partial sums of products that are cut along k for a GPU; mostly 0.
int64_t matmul_cuda_scratch_bytes(const MatmulDesc& desc);
int64_t matmul_rocm_scratch_bytes(const MatmulDesc& desc);

/// Throw Error for a bad desc, UnsupportedError for a route that the type or target lacks. Sizes of 0 are legal: without k the
/// product is 0.
void matmul(const MatmulDesc& desc, const MatmulArgs& args, int64_t slots, Executor& executor);
void matmul(const MatmulDesc& desc, const MatmulArgs& args, const CudaStream& stream);
void matmul(const MatmulDesc& desc, const MatmulArgs& args, const RocmStream& stream);

/// The kernel and tiles in use for desc, as a JSON object.
std::string matmul_describe(const MatmulDesc& desc);
std::string matmul_cuda_describe(const MatmulDesc& desc);
std::string matmul_rocm_describe(const MatmulDesc& desc, RocmArchitecture architecture);

}  // namespace jaxator
