/// @file
/// forward:  x, [residual], [weight]     -> y, [sum]
/// backward: sum, [weight], dy, [dsum]   -> dx, [dweight], [scratch]
/// x [..., D] in any rank; weight float32 [D].
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

RmsNormDesc desc_of(const Attributes& attributes, const Buffer& x) {
  RmsNormDesc desc = desc_of(attributes);
  desc.type = x.dtype();
  desc.columns = x.last();
  desc.rows = desc.columns == 0 ? 0 : x.elements() / desc.columns;
  return desc;
}

void check(const Attributes& attributes) { desc_of(attributes).validate(); }

void forward(Call& call) {
  const Buffer x = call.operand();
  const RmsNormDesc desc = desc_of(call.attributes, x);
  RmsNormForwardArgs args{};
  args.x = x.data;
  args.residual = call.operand_if(desc.has_residual).data;
  args.weight = call.operand_if(desc.has_weight).as<float>();
  args.y = call.result().data;
  args.sum = call.result_if(desc.has_residual).data;
  rms_norm_forward(desc, args, call.executor);
}

void backward(Call& call) {
  const Buffer sum = call.operand();
  const RmsNormDesc desc = desc_of(call.attributes, sum);
  RmsNormBackwardArgs args{};
  args.sum = sum.data;
  args.weight = call.operand_if(desc.has_weight).as<float>();
  args.dy = call.operand().data;
  args.dsum = call.operand_if(desc.has_residual).data;
  args.dx = call.result().data;
  args.dweight = call.result_if(desc.has_weight).as<float>();
  const Buffer scratch = call.result_if(desc.has_weight);
  args.scratch = scratch.as<float>();
  const int64_t needed = rms_norm_scratch_floats(desc);
  if (desc.has_weight && scratch.elements() < needed)
    throw Error("scratch has " + std::to_string(scratch.elements()) + " floats: needs " + std::to_string(needed));
  rms_norm_backward(desc, args, call.executor);
}

}  // namespace
}  // namespace jaxator::ffi

JAXATOR_FFI_HANDLER(rms_norm_forward, jaxator::ffi::check, jaxator::ffi::forward)
JAXATOR_FFI_HANDLER(rms_norm_backward, jaxator::ffi::check, jaxator::ffi::backward)
