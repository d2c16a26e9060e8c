/// @file
/// Attention's backward pass with native head size 64: also mask, bias and segments, read pair by pair.
#include "src/ops/attention/hopper_backward_main.h"

JAXATOR_ATTENTION_BACKWARD(attention_backward_64_pairs_bf16, Bf16, 64, true)
JAXATOR_ATTENTION_BACKWARD(attention_backward_64_pairs_f16, F16, 64, true)
