/// @file
/// inputs:   q, k, v, [bias], [mask], [query_lengths], [key_lengths], [query_segment_ids, key_segment_ids]
/// forward:  inputs                      -> out, lse, [scratch, on a CPU]
/// backward: inputs, out, lse, dout, dlse -> dq, dk, dv, [dbias], scratch
/// q [B,T,N,H], k [B,S,K,H], v [B,S,K,V]; bias and mask of rank 4; scratch uint8.
#include "jaxator/attention.h"

#include <type_traits>

#include "src/ffi/ffi.h"

namespace jaxator::ffi {
namespace {

AttentionDesc desc_of(const Attributes& attributes) {
  AttentionDesc desc;
  desc.head_size = desc.value_size = 1;
  desc.scale = attributes.get<float>("scale");
  desc.causal = attributes.get<bool>("causal");
  desc.causal_bottom_right = attributes.get<bool>("bottom_right");
  desc.window_left = attributes.get<int64_t>("window_left");
  desc.window_right = attributes.get<int64_t>("window_right");
  desc.has_bias = attributes.get<bool>("has_bias");
  desc.has_mask = attributes.get<bool>("has_mask");
  desc.has_query_lengths = attributes.get<bool>("has_query_lengths");
  desc.has_key_lengths = attributes.get<bool>("has_key_lengths");
  desc.has_segment_ids = attributes.get<bool>("has_segment_ids");
  desc.kv_gradients_f32 = attributes.get<bool>("kv_gradients_f32");
  desc.bias_gradient = attributes.get<bool>("bias_gradient");
  const int64_t dot = attributes.get<int64_t>("dot");
  if (dot < 0 || dot > 2) throw Error("dot=" + std::to_string(dot) + ": must be 0 (by CPU model), 1 (float32) or 2 (bfloat16)");
  desc.dot = static_cast<AttentionDot>(dot);
  return desc;
}

void check(const Attributes& attributes) {
  desc_of(attributes).validate();
  const int64_t slots = attributes.get<int64_t>("slots");
  if (slots < 1) throw Error("slots=" + std::to_string(slots) + ": must be positive");
}

void copy_shape(int64_t (&shape)[4], const char* name, const Buffer& buffer) {
  if (buffer.dimensions.size() != 4)
    throw Error(std::string(name) + " has " + std::to_string(buffer.dimensions.size()) + " dimensions: must have 4");
  for (int i = 0; i < 4; i++) shape[i] = buffer.dimensions[i];
}

/// Takes the inputs and completes desc with their shapes.
void take_inputs(Call& call, AttentionDesc& desc, AttentionInputs& args) {
  desc = desc_of(call.attributes);
  const Buffer q = call.operand(), k = call.operand(), v = call.operand();
  int64_t qs[4], ks[4], vs[4];
  copy_shape(qs, "q", q), copy_shape(ks, "k", k), copy_shape(vs, "v", v);
  if (qs[0] != ks[0] || qs[3] != ks[3] || ks[0] != vs[0] || ks[1] != vs[1] || ks[2] != vs[2] || q.type != k.type ||
      q.type != v.type)
    throw Error("q, k, v: their shapes or types do not fit together");
  desc.type = q.dtype();
  desc.batch = qs[0], desc.query_length = qs[1], desc.key_length = ks[1];
  desc.heads = qs[2], desc.kv_heads = ks[2], desc.head_size = qs[3], desc.value_size = vs[3];
  args.q = q.data, args.k = k.data, args.v = v.data;
  if (desc.has_bias) {
    const Buffer bias = call.operand();
    copy_shape(desc.bias_shape, "bias", bias);
    desc.bias_type = bias.dtype();
    args.bias = bias.data;
  }
  if (desc.has_mask) {
    const Buffer mask = call.operand();
    copy_shape(desc.mask_shape, "mask", mask);
    args.mask = mask.as<uint8_t>();
  }
  args.query_lengths = call.operand_if(desc.has_query_lengths).as<int32_t>();
  args.key_lengths = call.operand_if(desc.has_key_lengths).as<int32_t>();
  args.query_segment_ids = call.operand_if(desc.has_segment_ids).as<int32_t>();
  args.key_segment_ids = call.operand_if(desc.has_segment_ids).as<int32_t>();
}

template <class Target> void forward(Call& call, Target& target) {
  AttentionDesc desc;
  AttentionForwardArgs args;
  take_inputs(call, desc, args);
  args.out = call.result().data;
  args.lse = call.result().template as<float>();
  if constexpr (std::is_same_v<Target, Executor>) {
    const Buffer scratch = call.result();
    args.scratch = scratch.data;
    const int64_t slots = call.attributes.get<int64_t>("slots");
    desc.validate();
    require_elements("scratch", scratch, attention_forward_scratch_bytes(desc, slots));
    attention_forward(desc, args, slots, target);
  } else {
    attention_forward(desc, args, target);
  }
}

int64_t scratch_bytes(const AttentionDesc& desc, const CudaStream&) { return attention_cuda_backward_scratch_bytes(desc); }
int64_t scratch_bytes(const AttentionDesc& desc, const RocmStream&) { return attention_rocm_backward_scratch_bytes(desc); }

template <class Target> void backward(Call& call, Target& target) {
  AttentionDesc desc;
  AttentionBackwardArgs args;
  take_inputs(call, desc, args);
  args.out = call.operand().data;
  args.lse = call.operand().template as<float>();
  args.dout = call.operand().data;
  args.dlse = call.operand().template as<float>();
  args.dq = call.result().data;
  args.dk = call.result().data;
  args.dv = call.result().data;
  args.dbias = call.result_if(desc.bias_gradient).template as<float>();
  const Buffer scratch = call.result();
  args.scratch = scratch.data;
  desc.validate();
  if constexpr (std::is_same_v<Target, Executor>) {
    const int64_t slots = call.attributes.get<int64_t>("slots");
    require_elements("scratch", scratch, attention_backward_scratch_bytes(desc, slots));
    attention_backward(desc, args, slots, target);
  } else {
    require_elements("scratch", scratch, scratch_bytes(desc, target));
    attention_backward(desc, args, target);
  }
}

}  // namespace
}  // namespace jaxator::ffi

JAXATOR_FFI_HANDLER(attention_forward, jaxator::ffi::check, jaxator::ffi::forward)
JAXATOR_FFI_HANDLER(attention_backward, jaxator::ffi::check, jaxator::ffi::backward)
JAXATOR_FFI_ROCM_HANDLER(attention_forward, jaxator::ffi::forward)
JAXATOR_FFI_ROCM_HANDLER(attention_backward, jaxator::ffi::backward)
