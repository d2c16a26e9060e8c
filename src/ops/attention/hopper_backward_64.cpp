/// @file
/// Attention's backward pass with native head size 64: causal, window and lengths.
#include "src/ops/attention/hopper_backward_main.h"

JAXATOR_ATTENTION_BACKWARD(attention_backward_64_bf16, Bf16, 64, false)
JAXATOR_ATTENTION_BACKWARD(attention_backward_64_f16, F16, 64, false)
