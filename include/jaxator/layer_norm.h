/// @file
/// Layer normalisation (Ba, Kiros and Hinton 2016, arXiv:1607.06450):
///   y = (x - mean(x)) / sqrt(var(x) + epsilon) * weight + bias      over the last axis, float32 inside
/// The variance is that of the differences from the mean, so a large mean costs no accuracy.
#pragma once

#include "jaxator/cuda.h"
#include "jaxator/executor.h"
#include "jaxator/rocm.h"
#include "jaxator/types.h"

namespace jaxator {

/// What is asked. Arrays are row-major [rows, columns]; weight and bias are float32 [columns].
struct LayerNormDesc {
  DType type = DType::f32;  // of x, y and their gradients
  int64_t rows = 0;
  int64_t columns = 0;
  float epsilon = 1e-6f;
  bool has_weight = false;
  bool has_bias = false;

  /// Throws Error for negative sizes or an epsilon that is negative or not finite.
  void validate() const;
};

struct LayerNormForwardArgs {
  const void* x;
  const float* weight;  // null without a weight
  const float* bias;    // null without a bias
  void* y;
};

struct LayerNormBackwardArgs {
  const void* x;        // mean and variance are taken again: cheaper than to store and read them
  const float* weight;  // null without a weight
  const void* dy;
  void* dx;
  float* dweight;  // null without a weight
  float* dbias;    // null without a bias
  float* scratch;  // layer_norm_scratch_floats(desc) floats
};

/// Floats of scratch the backward pass needs: one partial dweight and dbias for each block of rows, so that the order of
/// the sums does not depend on the number of threads.
int64_t layer_norm_scratch_floats(const LayerNormDesc& desc);

/// Throw Error for a bad desc; zero rows or columns are legal.
void layer_norm_forward(const LayerNormDesc& desc, const LayerNormForwardArgs& args, Executor& executor);
void layer_norm_backward(const LayerNormDesc& desc, const LayerNormBackwardArgs& args, Executor& executor);

/// The same on a GPU: arrays and scratch lie in device memory, and the call returns before the work is done.
int64_t layer_norm_cuda_scratch_floats(const LayerNormDesc& desc);
void layer_norm_forward(const LayerNormDesc& desc, const LayerNormForwardArgs& args, const CudaStream& stream);
void layer_norm_backward(const LayerNormDesc& desc, const LayerNormBackwardArgs& args, const CudaStream& stream);
int64_t layer_norm_rocm_scratch_floats(const LayerNormDesc& desc);
void layer_norm_forward(const LayerNormDesc& desc, const LayerNormForwardArgs& args, const RocmStream& stream);
void layer_norm_backward(const LayerNormDesc& desc, const LayerNormBackwardArgs& args, const RocmStream& stream);

}  // namespace jaxator
