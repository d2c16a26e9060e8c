/// @file
/// Attention's backward pass with native head size 128: causal, window and lengths.
#include "src/ops/attention/hopper_backward_main.h"

JAXATOR_ATTENTION_BACKWARD(attention_backward_128_bf16, Bf16, 128, false)
JAXATOR_ATTENTION_BACKWARD(attention_backward_128_f16, F16, 128, false)
