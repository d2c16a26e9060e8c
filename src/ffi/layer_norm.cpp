/// @file
/// forward:  x, [weight], [bias]  -> y
/// backward: x, [weight], dy      -> dx, [dweight], [dbias], [scratch]
/// x [groups..., ..., D] in any rank; weight, bias float32 [D] or [groups..., D]; their gradients [groups..., D]. Groups come
/// from vmap. The backward pass has a scratch result if it has dweight or dbias.
#include "jaxator/layer_norm.h"

#include "src/ffi/ffi.h"

namespace jaxator::ffi {
namespace {

LayerNormDesc desc_of(const Attributes& attributes) {
  LayerNormDesc desc;
  desc.epsilon = attributes.get<float>("epsilon");
  desc.has_weight = attributes.get<bool>("has_weight");
  desc.has_bias = attributes.get<bool>("has_bias");
  return desc;
}

/// The rows of one group: those that share a weight and a bias (see groups_of).
LayerNormDesc desc_of(const Attributes& attributes, const Buffer& x, int64_t groups) {
  LayerNormDesc desc = desc_of(attributes);
  desc.type = x.dtype();
  desc.columns = x.last();
  desc.rows = desc.columns == 0 || groups == 0 ? 0 : x.elements() / desc.columns / groups;
  return desc;
}

/// The parameter of group g: its own, or the one that all share.
const float* parameter(const Buffer& buffer, int64_t g, int64_t columns) {
  return buffer.as<float>(groups_of(buffer, columns) > 1 ? g * columns : 0);
}

int64_t scratch_floats(const LayerNormDesc& desc, Executor&) { return layer_norm_scratch_floats(desc); }
int64_t scratch_floats(const LayerNormDesc& desc, const CudaStream&) { return layer_norm_cuda_scratch_floats(desc); }
int64_t scratch_floats(const LayerNormDesc& desc, const RocmStream&) { return layer_norm_rocm_scratch_floats(desc); }

void check(const Attributes& attributes) { desc_of(attributes).validate(); }

template <class Target> void forward(Call& call, Target& target) {
  const Buffer x = call.operand();
  const Buffer weight = call.operand_if(call.attributes.get<bool>("has_weight"));
  const Buffer bias = call.operand_if(call.attributes.get<bool>("has_bias"));
  const Buffer y = call.result();
  const int64_t columns = x.last(), groups = std::max(groups_of(weight, columns), groups_of(bias, columns));
  const LayerNormDesc desc = desc_of(call.attributes, x, groups);
  for (int64_t g = 0; g < groups; g++) {
    const int64_t at = g * desc.rows * columns;
    layer_norm_forward(
        desc, {.x = x.at(at), .weight = parameter(weight, g, columns), .bias = parameter(bias, g, columns), .y = y.at(at)},
        target);
  }
}

template <class Target> void backward(Call& call, Target& target) {
  const Buffer x = call.operand();
  const bool has_weight = call.attributes.get<bool>("has_weight"), has_bias = call.attributes.get<bool>("has_bias");
  const Buffer weight = call.operand_if(has_weight), dy = call.operand();
  const Buffer dx = call.result(), dweight = call.result_if(has_weight), dbias = call.result_if(has_bias);
  const Buffer scratch = call.result_if(has_weight || has_bias);
  const int64_t columns = x.last(), groups = groups_of(has_weight ? dweight : dbias, columns);
  const LayerNormDesc desc = desc_of(call.attributes, x, groups);
  require_elements("scratch", scratch, scratch_floats(desc, target));
  for (int64_t g = 0; g < groups; g++) {
    const int64_t at = g * desc.rows * columns;
    layer_norm_backward(desc,
                        {.x = x.at(at),
                         .weight = parameter(weight, g, columns),
                         .dy = dy.at(at),
                         .dx = dx.at(at),
                         .dweight = dweight.as<float>(g * columns),
                         .dbias = dbias.as<float>(g * columns),
                         .scratch = scratch.as<float>()},
                        target);
  }
}

}  // namespace
}  // namespace jaxator::ffi

JAXATOR_FFI_HANDLER(layer_norm_forward, jaxator::ffi::check, jaxator::ffi::forward)
JAXATOR_FFI_HANDLER(layer_norm_backward, jaxator::ffi::check, jaxator::ffi::backward)
JAXATOR_FFI_ROCM_HANDLER(layer_norm_forward, jaxator::ffi::forward)
JAXATOR_FFI_ROCM_HANDLER(layer_norm_backward, jaxator::ffi::backward)
