/// @file
/// RMS normalisation (Zhang and Sennrich 2019, arXiv:1910.07467), alone or fused with a residual addition.
///   s = x + residual (rounded to the element type; s = x without a residual)
///   y = s / sqrt(mean(s^2) + epsilon) * weight          mean over the last axis, float32 inside
#pragma once

#include "jaxator/cuda.h"
#include "jaxator/executor.h"
#include "jaxator/rocm.h"
#include "jaxator/types.h"

namespace jaxator {

/// What is asked. Arrays are row-major [rows, columns]; weight is float32 [columns].
struct RmsNormDesc {
  DType type = DType::f32;  // of x, residual, y, s and their gradients
  int64_t rows = 0;
  int64_t columns = 0;
  float epsilon = 1e-6f;
  bool has_residual = false;
  bool has_weight = false;

  /// Throws Error for negative sizes or an epsilon that is negative or not finite.
  void validate() const;
};

struct RmsNormForwardArgs {
  const void* x;
  const void* residual;  // null without a residual
  const float* weight;   // null without a weight
  void* y;
  void* sum;  // s, null without a residual
};

struct RmsNormBackwardArgs {
  const void* sum;      // s of the forward pass (x without a residual)
  const float* weight;  // null without a weight
  const void* dy;
  const void* dsum;  // gradient that reaches s by the residual stream; null without a residual
  void* dx;          // also the gradient of the residual
  float* dweight;    // null without a weight
  float* scratch;    // rms_norm_scratch_floats(desc) floats
};

/// Floats of scratch the backward pass needs: one partial dweight for each block of rows, so that the order of the sum
/// does not depend on the number of threads.
int64_t rms_norm_scratch_floats(const RmsNormDesc& desc);

/// Throw Error for a bad desc; zero rows or columns are legal.
void rms_norm_forward(const RmsNormDesc& desc, const RmsNormForwardArgs& args, Executor& executor);
void rms_norm_backward(const RmsNormDesc& desc, const RmsNormBackwardArgs& args, Executor& executor);

/// The same on a GPU: arrays and scratch lie in device memory, and the call returns before the work is done.
int64_t rms_norm_cuda_scratch_floats(const RmsNormDesc& desc);
void rms_norm_forward(const RmsNormDesc& desc, const RmsNormForwardArgs& args, const CudaStream& stream);
void rms_norm_backward(const RmsNormDesc& desc, const RmsNormBackwardArgs& args, const CudaStream& stream);
int64_t rms_norm_rocm_scratch_floats(const RmsNormDesc& desc);
void rms_norm_forward(const RmsNormDesc& desc, const RmsNormForwardArgs& args, const RocmStream& stream);
void rms_norm_backward(const RmsNormDesc& desc, const RmsNormBackwardArgs& args, const RocmStream& stream);

}  // namespace jaxator
