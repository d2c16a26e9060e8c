/// @file
/// Layer normalisation on a ROCm stream: check, return early for empty problems, decide, launch.
#include "jaxator/rocm.h"

#include "jaxator/layer_norm.h"
#include "src/ops/layer_norm/cdna.h"
#include "src/ops/norm_rocm.h"

namespace jaxator {
namespace rocm::images {
extern const Image layer_norm_forward, layer_norm_backward;
}
namespace {

using rocm::images::layer_norm_backward, rocm::images::layer_norm_forward;

const RocmKernelsByType kForward2 = JAXATOR_ROCM_KERNELS_BY_TYPE(layer_norm_forward, "layer_norm_forward2");
const RocmKernelsByType kForward4 = JAXATOR_ROCM_KERNELS_BY_TYPE(layer_norm_forward, "layer_norm_forward4");
const RocmKernelsByType kForwardElements = JAXATOR_ROCM_KERNELS_BY_TYPE(layer_norm_forward, "layer_norm_forward_elements");
const RocmKernelsByType kBackward1 = JAXATOR_ROCM_KERNELS_BY_TYPE(layer_norm_backward, "layer_norm_backward1");
const RocmKernelsByType kBackward4 = JAXATOR_ROCM_KERNELS_BY_TYPE(layer_norm_backward, "layer_norm_backward4");
const RocmKernelsByType kBackwardElements = JAXATOR_ROCM_KERNELS_BY_TYPE(layer_norm_backward, "layer_norm_backward_elements");
const rocm::Kernel kSumPartials{layer_norm_backward, "layer_norm_sum_partials"};

}  // namespace

int64_t layer_norm_rocm_scratch_floats(const LayerNormDesc& desc) {
  return norm_rocm::scratch_floats(desc.type, desc.rows, desc.columns, desc.has_weight + desc.has_bias);
}

void layer_norm_forward(const LayerNormDesc& desc, const LayerNormForwardArgs& args, const RocmStream& stream) {
  desc.validate();
  norm_rocm::check_columns(desc.columns);
  if (desc.rows == 0 || desc.columns == 0) return;
  const NormRocmConfig config = norm_rocm::forward(desc.type, desc.rows, desc.columns, {args.x, args.weight, args.bias, args.y});
  const cdna::LayerNormForward parameters{.x = args.x,
                                          .weight = args.weight,
                                          .bias = args.bias,
                                          .y = args.y,
                                          .rows = desc.rows,
                                          .columns = static_cast<unsigned>(desc.columns),
                                          .inverse_columns = 1.0f / static_cast<float>(desc.columns),
                                          .epsilon = desc.epsilon};
  const RocmKernelsByType& kernels = config.vectors == 2 ? kForward2 : config.vectors == 4 ? kForward4 : kForwardElements;
  rocm::launch(kernel_of(kernels, desc.type), config.geometry(), stream, parameters);
}

void layer_norm_backward(const LayerNormDesc& desc, const LayerNormBackwardArgs& args, const RocmStream& stream) {
  desc.validate();
  norm_rocm::check_columns(desc.columns);
  if (desc.columns == 0) return;
  const bool vectors = norm_rocm::in_vectors(desc.type, desc.columns, {args.x, args.weight, args.dy, args.dx, args.scratch});
  const NormRocmConfig config = norm_rocm::backward(desc.type, desc.rows, desc.columns, vectors);
  // Scratch: partial sums of dweight, then of dbias.
  float* dweight = desc.has_weight ? args.scratch : nullptr;
  float* dbias = desc.has_bias ? args.scratch + (desc.has_weight ? config.partials() * desc.columns : 0) : nullptr;
  const cdna::LayerNormBackward parameters{.x = args.x,
                                           .weight = args.weight,
                                           .dy = args.dy,
                                           .dx = args.dx,
                                           .dweight_partials = dweight,
                                           .dbias_partials = dbias,
                                           .rows = desc.rows,
                                           .columns = static_cast<unsigned>(desc.columns),
                                           .groups = static_cast<unsigned>(config.groups()),
                                           .inverse_columns = 1.0f / static_cast<float>(desc.columns),
                                           .epsilon = desc.epsilon};
  const RocmKernelsByType& kernels = config.vectors == 1 ? kBackward1 : config.vectors == 4 ? kBackward4 : kBackwardElements;
  // Without rows the one block writes partial sums of zeros, and the parameters' gradients become zero.
  if (desc.rows > 0 || desc.has_weight || desc.has_bias)
    rocm::launch(kernel_of(kernels, desc.type), config.geometry(), stream, parameters);
  if (desc.has_weight) norm_rocm::sum_partials(kSumPartials, dweight, args.dweight, config, desc.columns, stream);
  if (desc.has_bias) norm_rocm::sum_partials(kSumPartials, dbias, args.dbias, config, desc.columns, stream);
}

}  // namespace jaxator
