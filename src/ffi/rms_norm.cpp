/// @file
/// forward:  x, [residual], [weight]     -> y, [sum]
/// backward: sum, [weight], dy, [dsum]   -> dx, [dweight], [scratch]
/// x [groups..., ..., D] in any rank; weight float32 [D] or [groups..., D]; dweight [groups..., D]. Groups come from vmap.
#include "jaxator/rms_norm.h"

#include "src/ffi/ffi.h"

namespace jaxator::ffi {
namespace {

RmsNormDesc desc_of(const Attributes& attributes) {
  RmsNormDesc desc;
  desc.epsilon = attributes.get<float>("epsilon");
  desc.has_residual = attributes.get<bool>("has_residual");
  desc.has_weight = attributes.get<bool>("has_weight");
  return desc;
}

/// The rows of one group: those that share a weight (see groups_of).
RmsNormDesc desc_of(const Attributes& attributes, const Buffer& x, int64_t groups) {
  RmsNormDesc desc = desc_of(attributes);
  desc.type = x.dtype();
  desc.columns = x.last();
  desc.rows = desc.columns == 0 || groups == 0 ? 0 : x.elements() / desc.columns / groups;
  return desc;
}

int64_t scratch_floats(const RmsNormDesc& desc, Executor&) { return rms_norm_scratch_floats(desc); }
int64_t scratch_floats(const RmsNormDesc& desc, const CudaStream&) { return rms_norm_cuda_scratch_floats(desc); }
int64_t scratch_floats(const RmsNormDesc& desc, const RocmStream&) { return rms_norm_rocm_scratch_floats(desc); }

void check(const Attributes& attributes) { desc_of(attributes).validate(); }

template <class Target> void forward(Call& call, Target& target) {
  const Buffer x = call.operand();
  const Buffer residual = call.operand_if(call.attributes.get<bool>("has_residual"));
  const Buffer weight = call.operand_if(call.attributes.get<bool>("has_weight"));
  const Buffer y = call.result(), sum = call.result_if(residual.data != nullptr);
  const RmsNormDesc desc = desc_of(call.attributes, x, groups_of(weight, x.last()));
  for (int64_t g = 0; g < groups_of(weight, desc.columns); g++) {
    const int64_t at = g * desc.rows * desc.columns;
    rms_norm_forward(desc,
                     {.x = x.at(at),
                      .residual = residual.at(at),
                      .weight = weight.as<float>(g * desc.columns),
                      .y = y.at(at),
                      .sum = sum.at(at)},
                     target);
  }
}

template <class Target> void backward(Call& call, Target& target) {
  const Buffer sum = call.operand();
  const bool has_weight = call.attributes.get<bool>("has_weight");
  const Buffer weight = call.operand_if(has_weight), dy = call.operand();
  const Buffer dsum = call.operand_if(call.attributes.get<bool>("has_residual"));
  const Buffer dx = call.result(), dweight = call.result_if(has_weight), scratch = call.result_if(has_weight);
  const RmsNormDesc desc = desc_of(call.attributes, sum, groups_of(dweight, sum.last()));
  require_elements("scratch", scratch, scratch_floats(desc, target));
  const bool own_weights = groups_of(weight, desc.columns) > 1;
  for (int64_t g = 0; g < groups_of(dweight, desc.columns); g++) {
    const int64_t at = g * desc.rows * desc.columns;
    rms_norm_backward(desc,
                      {.sum = sum.at(at),
                       .weight = weight.as<float>(own_weights ? g * desc.columns : 0),
                       .dy = dy.at(at),
                       .dsum = dsum.at(at),
                       .dx = dx.at(at),
                       .dweight = dweight.as<float>(g * desc.columns),
                       .scratch = scratch.as<float>()},
                      target);
  }
}

}  // namespace
}  // namespace jaxator::ffi

JAXATOR_FFI_HANDLER(rms_norm_forward, jaxator::ffi::check, jaxator::ffi::forward)
JAXATOR_FFI_HANDLER(rms_norm_backward, jaxator::ffi::check, jaxator::ffi::backward)
JAXATOR_FFI_ROCM_HANDLER(rms_norm_forward, jaxator::ffi::forward)
JAXATOR_FFI_ROCM_HANDLER(rms_norm_backward, jaxator::ffi::backward)
