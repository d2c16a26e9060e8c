/// @file
/// SwiGLU (Shazeer 2020, arXiv:2002.05202), the product in the middle of a gated feed-forward layer:
///   y = silu(gate) * up      silu(x) = x / (1 + e^-x), float32 inside
/// With a limit L (gpt-oss, 2025): gate is cut at L from above, up at -L and L, before the product. A gradient is 0 where its
/// operand was cut.
#pragma once

#include <limits>

#include "jaxator/cuda.h"
#include "jaxator/executor.h"
#include "jaxator/rocm.h"
#include "jaxator/types.h"

namespace jaxator {

/// What is asked. Arrays are row-major; gate and up are [rows, columns] each, or (packed) one array [rows, 2 * columns] whose
/// rows begin with gate. Their gradients have the same form.
struct SwigluDesc {
  DType type = DType::f32;  // of all arrays
  int64_t rows = 0;
  int64_t columns = 0;                                   // of y
  float limit = std::numeric_limits<float>::infinity();  // infinity: none
  bool packed = false;

  /// Throws Error for negative sizes or a limit that is not positive.
  void validate() const;
};

struct SwigluForwardArgs {
  const void* gate;
  const void* up;  // null if packed
  void* y;
};

struct SwigluBackwardArgs {
  const void* gate;
  const void* up;  // null if packed
  const void* dy;
  void* dgate;
  void* dup;  // null if packed
};

/// Throw Error for a bad desc; zero rows or columns are legal.
void swiglu_forward(const SwigluDesc& desc, const SwigluForwardArgs& args, Executor& executor);
void swiglu_backward(const SwigluDesc& desc, const SwigluBackwardArgs& args, Executor& executor);

/// The same on a GPU: arrays lie in device memory, and the call returns before the work is done.
void swiglu_forward(const SwigluDesc& desc, const SwigluForwardArgs& args, const CudaStream& stream);
void swiglu_backward(const SwigluDesc& desc, const SwigluBackwardArgs& args, const CudaStream& stream);
void swiglu_forward(const SwigluDesc& desc, const SwigluForwardArgs& args, const RocmStream& stream);
void swiglu_backward(const SwigluDesc& desc, const SwigluBackwardArgs& args, const RocmStream& stream);

}  // namespace jaxator
