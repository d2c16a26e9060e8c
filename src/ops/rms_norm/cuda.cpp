/// @file
/// RMS normalisation on a CUDA stream: check, return early for empty problems, decide, launch.
#include "jaxator/cuda.h"

#include "jaxator/rms_norm.h"
#include "src/ops/norm_cuda.h"
#include "src/ops/rms_norm/hopper.h"

namespace jaxator {
namespace cuda::images {
extern const Image rms_norm_forward, rms_norm_backward;
}
namespace {

using cuda::images::rms_norm_backward, cuda::images::rms_norm_forward;

const KernelsByType kForward2 = JAXATOR_KERNELS_BY_TYPE(rms_norm_forward, "rms_norm_forward2");
const KernelsByType kForward4 = JAXATOR_KERNELS_BY_TYPE(rms_norm_forward, "rms_norm_forward4");
const KernelsByType kForwardElements = JAXATOR_KERNELS_BY_TYPE(rms_norm_forward, "rms_norm_forward_elements");
const KernelsByType kBackward1 = JAXATOR_KERNELS_BY_TYPE(rms_norm_backward, "rms_norm_backward1");
const KernelsByType kBackward4 = JAXATOR_KERNELS_BY_TYPE(rms_norm_backward, "rms_norm_backward4");
const KernelsByType kBackwardElements = JAXATOR_KERNELS_BY_TYPE(rms_norm_backward, "rms_norm_backward_elements");
const cuda::Kernel kSumPartials{rms_norm_backward, "rms_norm_sum_partials"};

}  // namespace

int64_t rms_norm_cuda_scratch_floats(const RmsNormDesc& desc) {
  return norm_cuda::scratch_floats(norm_cuda::kRmsNorm, desc.type, desc.rows, desc.columns, desc.has_weight);
}

void rms_norm_forward(const RmsNormDesc& desc, const RmsNormForwardArgs& args, const CudaStream& stream) {
  desc.validate();
  norm_cuda::check_columns(desc.columns);
  if (desc.rows == 0 || desc.columns == 0) return;
  const NormCudaConfig config = norm_cuda::forward(norm_cuda::kRmsNorm, desc.type, desc.rows, desc.columns,
                                                   {args.x, args.residual, args.weight, args.y, args.sum});
  const hopper::RmsNormForward parameters{.x = args.x,
                                          .residual = args.residual,
                                          .weight = args.weight,
                                          .y = args.y,
                                          .sum = args.sum,
                                          .rows = desc.rows,
                                          .columns = static_cast<int>(desc.columns),
                                          .inverse_columns = 1.0f / static_cast<float>(desc.columns),
                                          .epsilon = desc.epsilon};
  const KernelsByType& kernels = config.vectors == 2 ? kForward2 : config.vectors == 4 ? kForward4 : kForwardElements;
  cuda::launch(kernel_of(kernels, desc.type), config.geometry(), stream, parameters);
}

void rms_norm_backward(const RmsNormDesc& desc, const RmsNormBackwardArgs& args, const CudaStream& stream) {
  desc.validate();
  norm_cuda::check_columns(desc.columns);
  if (desc.columns == 0) return;
  const bool vectors =
      norm_cuda::in_vectors(desc.type, desc.columns, {args.sum, args.weight, args.dy, args.dsum, args.dx, args.scratch});
  const NormCudaConfig config =
      norm_cuda::backward(norm_cuda::kRmsNorm, desc.type, desc.rows, desc.columns, vectors, args.dsum != nullptr ? 3 : 2);
  const hopper::RmsNormBackward parameters{.sum = args.sum,
                                           .weight = args.weight,
                                           .dy = args.dy,
                                           .dsum = args.dsum,
                                           .dx = args.dx,
                                           .partials = desc.has_weight ? args.scratch : nullptr,
                                           .rows = desc.rows,
                                           .columns = static_cast<int>(desc.columns),
                                           .inverse_columns = 1.0f / static_cast<float>(desc.columns),
                                           .stages = config.stages,
                                           .epsilon = desc.epsilon};
  const KernelsByType& kernels = config.vectors == 1 ? kBackward1 : config.vectors == 4 ? kBackward4 : kBackwardElements;
  // Without rows the one block writes a partial sum of zeros, and dweight becomes zero.
  if (desc.rows > 0 || desc.has_weight) cuda::launch(kernel_of(kernels, desc.type), config.geometry(), stream, parameters);
  if (desc.has_weight) norm_cuda::sum_partials(kSumPartials, args.scratch, args.dweight, nullptr, config, desc.columns, stream);
}

}  // namespace jaxator
