/// @file
/// Layer normalisation on a CUDA stream: check, return early for empty problems, decide, launch.
#include "jaxator/cuda.h"

#include "jaxator/layer_norm.h"
#include "src/ops/layer_norm/hopper.h"
#include "src/ops/norm_cuda.h"

namespace jaxator {
namespace cuda::images {
extern const Image layer_norm_forward, layer_norm_backward;
}
namespace {

using cuda::images::layer_norm_backward, cuda::images::layer_norm_forward;

const KernelsByType kForward2 = JAXATOR_KERNELS_BY_TYPE(layer_norm_forward, "layer_norm_forward2");
const KernelsByType kForward4 = JAXATOR_KERNELS_BY_TYPE(layer_norm_forward, "layer_norm_forward4");
const KernelsByType kForwardElements = JAXATOR_KERNELS_BY_TYPE(layer_norm_forward, "layer_norm_forward_elements");
const KernelsByType kBackward2 = JAXATOR_KERNELS_BY_TYPE(layer_norm_backward, "layer_norm_backward2");
const KernelsByType kBackward4 = JAXATOR_KERNELS_BY_TYPE(layer_norm_backward, "layer_norm_backward4");
const KernelsByType kBackwardElements = JAXATOR_KERNELS_BY_TYPE(layer_norm_backward, "layer_norm_backward_elements");
const cuda::Kernel kSumPartials{layer_norm_backward, "layer_norm_sum_partials"};

}  // namespace

int64_t layer_norm_cuda_scratch_floats(const LayerNormDesc& desc) {
  return norm_cuda::scratch_floats(norm_cuda::kLayerNorm, desc.type, desc.rows, desc.columns, desc.has_weight + desc.has_bias);
}

void layer_norm_forward(const LayerNormDesc& desc, const LayerNormForwardArgs& args, const CudaStream& stream) {
  desc.validate();
  norm_cuda::check_columns(desc.columns);
  if (desc.rows == 0 || desc.columns == 0) return;
  const NormCudaConfig config =
      norm_cuda::forward(norm_cuda::kLayerNorm, desc.type, desc.rows, desc.columns, {args.x, args.weight, args.bias, args.y});
  const hopper::LayerNormForward parameters{.x = args.x,
                                            .weight = args.weight,
                                            .bias = args.bias,
                                            .y = args.y,
                                            .rows = desc.rows,
                                            .columns = static_cast<int>(desc.columns),
                                            .inverse_columns = 1.0f / static_cast<float>(desc.columns),
                                            .epsilon = desc.epsilon};
  const KernelsByType& kernels = config.vectors == 2 ? kForward2 : config.vectors == 4 ? kForward4 : kForwardElements;
  cuda::launch(kernel_of(kernels, desc.type), config.geometry(), stream, parameters);
}

void layer_norm_backward(const LayerNormDesc& desc, const LayerNormBackwardArgs& args, const CudaStream& stream) {
  desc.validate();
  norm_cuda::check_columns(desc.columns);
  if (desc.columns == 0) return;
  const bool vectors = norm_cuda::in_vectors(desc.type, desc.columns, {args.x, args.weight, args.dy, args.dx, args.scratch});
  const NormCudaConfig config = norm_cuda::backward(norm_cuda::kLayerNorm, desc.type, desc.rows, desc.columns, vectors, 2);
  // Scratch: partial sums of dweight, then of dbias.
  float* dweight = desc.has_weight ? args.scratch : nullptr;
  float* dbias = desc.has_bias ? args.scratch + (desc.has_weight ? config.partials() * desc.columns : 0) : nullptr;
  const hopper::LayerNormBackward parameters{.x = args.x,
                                             .weight = args.weight,
                                             .dy = args.dy,
                                             .dx = args.dx,
                                             .dweight_partials = dweight,
                                             .dbias_partials = dbias,
                                             .rows = desc.rows,
                                             .columns = static_cast<int>(desc.columns),
                                             .inverse_columns = 1.0f / static_cast<float>(desc.columns),
                                             .stages = config.stages,
                                             .epsilon = desc.epsilon};
  const KernelsByType& kernels = config.vectors == 2 ? kBackward2 : config.vectors == 4 ? kBackward4 : kBackwardElements;
  // Without rows the one block writes partial sums of zeros, and the parameters' gradients become zero.
  const bool parameters_too = desc.has_weight || desc.has_bias;
  if (desc.rows > 0 || parameters_too) cuda::launch(kernel_of(kernels, desc.type), config.geometry(), stream, parameters);
  if (!parameters_too) return;
  float* first = desc.has_weight ? args.dweight : args.dbias;
  float* second = desc.has_weight && desc.has_bias ? args.dbias : nullptr;
  norm_cuda::sum_partials(kSumPartials, args.scratch, first, second, config, desc.columns, stream);
}

}  // namespace jaxator
