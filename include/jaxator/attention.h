/// @file
/// Scaled dot-product attention without a T x S array (Dao et al. 2022, arXiv:2205.14135), forward and backward.
///   logit[b,n,t,s] = scale * sum_h q[b,t,n,h] * k[b,s,n/G,h] + bias[b,n,t,s]           G = heads / kv_heads
///   out[b,t,n,:]   = sum_s softmax_s(logit)[b,n,t,s] * v[b,s,n/G,:]                     over the visible keys
///   lse[b,t,n]     = log sum_s exp(logit[b,n,t,s])                                      natural logarithm, float32
/// A key is visible when mask, lengths, segment ids, causal and window all say so and its logit is not -inf. A query with no
/// visible key has out 0, lse -inf and gradients 0, whatever its cotangent holds. Rows and keys past their lengths or with a
/// negative segment id are padding: never used, they may hold NaN.
#pragma once

#include <string>

#include "jaxator/cuda.h"
#include "jaxator/executor.h"
#include "jaxator/rocm.h"
#include "jaxator/types.h"

namespace jaxator {

/// How products are computed: float32 FMA on widened elements, or the bfloat16 dot instruction with float32 accumulation
/// (the probabilities and logit gradients are then rounded to bfloat16 before their products, as on GPUs).
enum class AttentionDot : int32_t { by_cpu_model = 0, f32 = 1, bf16 = 2 };

/// What is asked. Arrays are row-major: q [B,T,N,H], k [B,S,K,H], v [B,S,K,V], out [B,T,N,V], lse [B,T,N].
struct AttentionDesc {
  DType type = DType::f32;   // of q, k, v, out and their gradients
  int64_t batch = 0;         // B
  int64_t query_length = 0;  // T
  int64_t key_length = 0;    // S
  int64_t heads = 0;         // N, a multiple of kv_heads
  int64_t kv_heads = 0;      // K
  int64_t head_size = 0;     // H, 1..256
  int64_t value_size = 0;    // V, 1..256
  float scale = 1;

  // Query i sits at i' = i (top left) or i + keys - queries (bottom right; per-batch lengths where given).
  bool causal = false;  // key j visible iff j <= i'
  bool causal_bottom_right = false;
  int64_t window_left = -1;   // key j visible iff i' - window_left <= j; -1 = unbounded
  int64_t window_right = -1;  // key j visible iff j <= i' + window_right; -1 = unbounded

  bool has_bias = false;
  DType bias_type = DType::f32;
  int64_t bias_shape[4] = {1, 1, 1, 1};  // each 1 or the size of [B,N,T,S]
  bool has_mask = false;
  int64_t mask_shape[4] = {1, 1, 1, 1};  // bytes, nonzero = takes part
  bool has_query_lengths = false;        // int32 [B], cut to 0..T
  bool has_key_lengths = false;          // int32 [B], cut to 0..S
  bool has_segment_ids = false;          // int32 [B,T] and [B,S]; equal ids attend
  bool kv_gradients_f32 = false;         // dk and dv are float32: they are partial sums of a computation cut by heads
  bool bias_gradient = false;            // backward also writes dbias
  AttentionDot dot = AttentionDot::by_cpu_model;

  /// Throws Error, naming the field, its value and the rule.
  void validate() const;
};

/// What both passes read. Pointers that the desc does not ask for may be null.
struct AttentionInputs {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  const void* bias = nullptr;
  const uint8_t* mask = nullptr;
  const int32_t* query_lengths = nullptr;
  const int32_t* key_lengths = nullptr;
  const int32_t* query_segment_ids = nullptr;
  const int32_t* key_segment_ids = nullptr;
};

struct AttentionForwardArgs : AttentionInputs {
  void* out = nullptr;
  float* lse = nullptr;
  void* scratch = nullptr;  // 64-byte aligned, attention_forward_scratch_bytes(desc, slots)
};

struct AttentionBackwardArgs : AttentionInputs {
  const void* out = nullptr;
  const float* lse = nullptr;
  const void* dout = nullptr;
  const float* dlse = nullptr;  // gradient that reaches lse; null = zeros
  void* dq = nullptr;
  void* dk = nullptr;
  void* dv = nullptr;
  float* dbias = nullptr;   // in bias_shape, summed over the broadcast dimensions; only with bias_gradient
  void* scratch = nullptr;  // 64-byte aligned, attention_backward_scratch_bytes(desc, slots); on a GPU 16-byte aligned
};

/// Pieces of scratch worth having: decided by the shape alone, so a program exported elsewhere brings enough.
int64_t attention_slots(const AttentionDesc& desc);

/// Bytes for `slots` tasks at a time, enough for every instruction set and route. Results do not depend on slots.
int64_t attention_forward_scratch_bytes(const AttentionDesc& desc, int64_t slots);
int64_t attention_backward_scratch_bytes(const AttentionDesc& desc, int64_t slots);

/// Throw Error for a bad desc, UnsupportedError for a forced route that this CPU or type lacks. Sizes of 0 are legal.
void attention_forward(const AttentionDesc& desc, const AttentionForwardArgs& args, int64_t slots, Executor& executor);
void attention_backward(const AttentionDesc& desc, const AttentionBackwardArgs& args, int64_t slots, Executor& executor);

/// The same on a GPU: arrays lie in device memory, and the call returns before the work is done. The forward pass needs no
/// scratch. Throws UnsupportedError for float32, and for a head or value size that is no multiple of 8.
void attention_forward(const AttentionDesc& desc, const AttentionForwardArgs& args, const CudaStream& stream);

/// Throws UnsupportedError for sizes over 128 too. Deterministic: the same bits each time. Scratch holds dq as float32 sums; its
/// size depends on the shape alone.
void attention_backward(const AttentionDesc& desc, const AttentionBackwardArgs& args, const CudaStream& stream);
int64_t attention_cuda_backward_scratch_bytes(const AttentionDesc& desc);

/// On a ROCm device, or on the emulator. Throws UnsupportedError for float32, for sizes over 128 or that are no multiple of 8.
void attention_forward(const AttentionDesc& desc, const AttentionForwardArgs& args, const RocmStream& stream);

/// Deterministic: the same bits each time. dq, dk, dv and dbias are each made by a kernel that computes the
/// probabilities again, so scratch holds two floats for each query row alone.
void attention_backward(const AttentionDesc& desc, const AttentionBackwardArgs& args, const RocmStream& stream);
int64_t attention_rocm_backward_scratch_bytes(const AttentionDesc& desc);

/// Query-key pairs over all batches and heads, lengths and segments not counted: those that causal and window leave visible,
/// and those the forward kernel computes.
struct AttentionPairs {
  int64_t useful = 0;
  int64_t visited = 0;
};
AttentionPairs attention_visited(const AttentionDesc& desc);

/// The kernel and tiles in use for desc, as a JSON object.
std::string attention_describe(const AttentionDesc& desc);

}  // namespace jaxator
