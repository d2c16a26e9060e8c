/// @file
/// RMS normalisation on a ROCm stream: check, return early for empty problems, decide, launch.
#include "jaxator/rocm.h"

#include "jaxator/rms_norm.h"
#include "src/ops/norm_rocm.h"
#include "src/ops/rms_norm/cdna.h"

namespace jaxator {
namespace rocm::images {
extern const Image rms_norm_forward, rms_norm_backward;
}
namespace {

using rocm::images::rms_norm_backward, rocm::images::rms_norm_forward;

const RocmKernelsByType kForward2 = JAXATOR_ROCM_KERNELS_BY_TYPE(rms_norm_forward, "rms_norm_forward2");
const RocmKernelsByType kForward4 = JAXATOR_ROCM_KERNELS_BY_TYPE(rms_norm_forward, "rms_norm_forward4");
const RocmKernelsByType kForwardElements = JAXATOR_ROCM_KERNELS_BY_TYPE(rms_norm_forward, "rms_norm_forward_elements");
const RocmKernelsByType kBackward1 = JAXATOR_ROCM_KERNELS_BY_TYPE(rms_norm_backward, "rms_norm_backward1");
const RocmKernelsByType kBackward4 = JAXATOR_ROCM_KERNELS_BY_TYPE(rms_norm_backward, "rms_norm_backward4");
const RocmKernelsByType kBackwardElements = JAXATOR_ROCM_KERNELS_BY_TYPE(rms_norm_backward, "rms_norm_backward_elements");
const rocm::Kernel kSumPartials{rms_norm_backward, "rms_norm_sum_partials"};

}  // namespace

int64_t rms_norm_rocm_scratch_floats(const RmsNormDesc& desc) {
  return norm_rocm::scratch_floats(desc.type, desc.rows, desc.columns, desc.has_weight);
}

void rms_norm_forward(const RmsNormDesc& desc, const RmsNormForwardArgs& args, const RocmStream& stream) {
  desc.validate();
  norm_rocm::check_columns(desc.columns);
  if (desc.rows == 0 || desc.columns == 0) return;
  const NormRocmConfig config =
      norm_rocm::forward(desc.type, desc.rows, desc.columns, {args.x, args.residual, args.weight, args.y, args.sum});
  const cdna::RmsNormForward parameters{.x = args.x,
                                        .residual = args.residual,
                                        .weight = args.weight,
                                        .y = args.y,
                                        .sum = args.sum,
                                        .rows = desc.rows,
                                        .columns = static_cast<unsigned>(desc.columns),
                                        .inverse_columns = 1.0f / static_cast<float>(desc.columns),
                                        .epsilon = desc.epsilon};
  const RocmKernelsByType& kernels = config.vectors == 2 ? kForward2 : config.vectors == 4 ? kForward4 : kForwardElements;
  rocm::launch(kernel_of(kernels, desc.type), config.geometry(), stream, parameters);
}

void rms_norm_backward(const RmsNormDesc& desc, const RmsNormBackwardArgs& args, const RocmStream& stream) {
  desc.validate();
  norm_rocm::check_columns(desc.columns);
  if (desc.columns == 0) return;
  const bool vectors =
      norm_rocm::in_vectors(desc.type, desc.columns, {args.sum, args.weight, args.dy, args.dsum, args.dx, args.scratch});
  const NormRocmConfig config = norm_rocm::backward(desc.type, desc.rows, desc.columns, vectors);
  const cdna::RmsNormBackward parameters{.sum = args.sum,
                                         .weight = args.weight,
                                         .dy = args.dy,
                                         .dsum = args.dsum,
                                         .dx = args.dx,
                                         .partials = desc.has_weight ? args.scratch : nullptr,
                                         .rows = desc.rows,
                                         .columns = static_cast<unsigned>(desc.columns),
                                         .groups = static_cast<unsigned>(config.groups()),
                                         .inverse_columns = 1.0f / static_cast<float>(desc.columns),
                                         .epsilon = desc.epsilon};
  const RocmKernelsByType& kernels = config.vectors == 1 ? kBackward1 : config.vectors == 4 ? kBackward4 : kBackwardElements;
  // Without rows the one block writes a partial sum of zeros, and dweight becomes zero.
  if (desc.rows > 0 || desc.has_weight) rocm::launch(kernel_of(kernels, desc.type), config.geometry(), stream, parameters);
  if (desc.has_weight) norm_rocm::sum_partials(kSumPartials, args.scratch, args.dweight, config, desc.columns, stream);
}

}  // namespace jaxator
