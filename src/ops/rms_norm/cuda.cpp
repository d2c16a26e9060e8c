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

using cuda::Kernel;

// By element type: float32, bfloat16, float16.
const Kernel kForward2[] = {{cuda::images::rms_norm_forward, "rms_norm_forward2_f32"},
                            {cuda::images::rms_norm_forward, "rms_norm_forward2_bf16"},
                            {cuda::images::rms_norm_forward, "rms_norm_forward2_f16"}};
const Kernel kForward4[] = {{cuda::images::rms_norm_forward, "rms_norm_forward4_f32"},
                            {cuda::images::rms_norm_forward, "rms_norm_forward4_bf16"},
                            {cuda::images::rms_norm_forward, "rms_norm_forward4_f16"}};
const Kernel kForwardElements[] = {{cuda::images::rms_norm_forward, "rms_norm_forward_elements_f32"},
                                   {cuda::images::rms_norm_forward, "rms_norm_forward_elements_bf16"},
                                   {cuda::images::rms_norm_forward, "rms_norm_forward_elements_f16"}};
const Kernel kBackward2[] = {{cuda::images::rms_norm_backward, "rms_norm_backward2_f32"},
                             {cuda::images::rms_norm_backward, "rms_norm_backward2_bf16"},
                             {cuda::images::rms_norm_backward, "rms_norm_backward2_f16"}};
const Kernel kBackwardElements[] = {{cuda::images::rms_norm_backward, "rms_norm_backward_elements_f32"},
                                    {cuda::images::rms_norm_backward, "rms_norm_backward_elements_bf16"},
                                    {cuda::images::rms_norm_backward, "rms_norm_backward_elements_f16"}};
const Kernel kSumPartials{cuda::images::rms_norm_backward, "rms_norm_sum_partials"};

const Kernel& of(const Kernel (&kernels)[3], DType type) { return kernels[static_cast<int>(type)]; }

}  // namespace

int64_t rms_norm_cuda_scratch_floats(const RmsNormDesc& desc) {
  if (!desc.has_weight) return 0;
  // Addresses are not known yet; without vectors there may be more or fewer groups.
  int64_t groups = 0;
  for (bool vectors : {false, true})
    groups = std::max(groups, norm_cuda::backward(desc.type, desc.rows, desc.columns, vectors).row_groups());
  return groups * desc.columns;
}

void rms_norm_forward(const RmsNormDesc& desc, const RmsNormForwardArgs& args, const CudaStream& stream) {
  desc.validate();
  norm_cuda::check_columns(desc.columns);
  if (desc.rows == 0 || desc.columns == 0) return;
  const NormCudaConfig config =
      norm_cuda::forward(desc.type, desc.rows, desc.columns, {args.x, args.residual, args.weight, args.y, args.sum});
  const hopper::RmsNormForward parameters{args.x,   args.residual, args.weight,       args.y,
                                          args.sum, desc.rows,     int(desc.columns), desc.epsilon};
  const auto& kernels = config.vectors == 2 ? kForward2 : config.vectors == 4 ? kForward4 : kForwardElements;
  cuda::launch(of(kernels, desc.type), config.geometry(), stream, parameters);
}

void rms_norm_backward(const RmsNormDesc& desc, const RmsNormBackwardArgs& args, const CudaStream& stream) {
  desc.validate();
  norm_cuda::check_columns(desc.columns);
  if (desc.columns == 0) return;
  const NormCudaConfig config = norm_cuda::backward(
      desc.type, desc.rows, desc.columns,
      norm_cuda::in_vectors(desc.type, desc.columns, {args.sum, args.weight, args.dy, args.dsum, args.dx, args.scratch}));
  const hopper::RmsNormBackward parameters{args.sum,  args.weight,       args.dy,
                                           args.dsum, args.dx,           desc.has_weight ? args.scratch : nullptr,
                                           desc.rows, int(desc.columns), desc.epsilon};
  // Without rows the one block writes a partial sum of zeros, and dweight becomes zero.
  if (desc.rows > 0 || desc.has_weight)
    cuda::launch(of(config.vectors == 2 ? kBackward2 : kBackwardElements, desc.type), config.geometry(), stream, parameters);
  if (desc.has_weight) norm_cuda::sum_partials(kSumPartials, args.scratch, args.dweight, config, desc.columns, stream);
}

}  // namespace jaxator
