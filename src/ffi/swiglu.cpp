/// @file
/// forward:  gate, [up]      -> y
/// backward: gate, [up], dy  -> dgate, [dup]
/// gate, up, y [..., F] in any rank. Packed: gate [..., 2F] holds both halves and there is no up (nor dup). Attribute limit is
/// infinity for none.
#include "jaxator/swiglu.h"

#include "src/ffi/ffi.h"

namespace jaxator::ffi {
namespace {

SwigluDesc desc_of(const Attributes& attributes) {
  SwigluDesc desc;
  desc.packed = attributes.get<bool>("packed");
  desc.limit = attributes.get<float>("limit");
  return desc;
}

SwigluDesc desc_of(const Attributes& attributes, const Buffer& gate) {
  SwigluDesc desc = desc_of(attributes);
  desc.type = gate.dtype();
  if (desc.packed && gate.last() % 2 != 0)
    throw Error("gate has " + std::to_string(gate.last()) + " columns: must be even if packed");
  desc.columns = desc.packed ? gate.last() / 2 : gate.last();
  desc.rows = gate.last() == 0 ? 0 : gate.elements() / gate.last();
  return desc;
}

void check(const Attributes& attributes) { desc_of(attributes).validate(); }

template <class Target> void forward(Call& call, Target& target) {
  const Buffer gate = call.operand();
  const SwigluDesc desc = desc_of(call.attributes, gate);
  const Buffer up = call.operand_if(!desc.packed), y = call.result();
  swiglu_forward(desc, {.gate = gate.data, .up = up.data, .y = y.data}, target);
}

template <class Target> void backward(Call& call, Target& target) {
  const Buffer gate = call.operand();
  const SwigluDesc desc = desc_of(call.attributes, gate);
  const Buffer up = call.operand_if(!desc.packed), dy = call.operand();
  const Buffer dgate = call.result(), dup = call.result_if(!desc.packed);
  swiglu_backward(desc, {.gate = gate.data, .up = up.data, .dy = dy.data, .dgate = dgate.data, .dup = dup.data}, target);
}

}  // namespace
}  // namespace jaxator::ffi

JAXATOR_FFI_HANDLER(swiglu_forward, jaxator::ffi::check, jaxator::ffi::forward)
JAXATOR_FFI_HANDLER(swiglu_backward, jaxator::ffi::check, jaxator::ffi::backward)
JAXATOR_FFI_ROCM_HANDLER(swiglu_forward, jaxator::ffi::forward)
JAXATOR_FFI_ROCM_HANDLER(swiglu_backward, jaxator::ffi::backward)
