/// @file
/// Attention forward for head sizes up to 128.
#include "src/ops/attention/cdna_forward.h"

using namespace jaxator::cdna;
using attention::ForwardParams, attention::forward;

JAXATOR_ATTENTION_KERNEL attention_forward_bf16(ForwardParams p) { forward<128, Bf16, false>(p); }
JAXATOR_ATTENTION_KERNEL attention_forward_f16(ForwardParams p) { forward<128, F16, false>(p); }
JAXATOR_ATTENTION_KERNEL attention_forward_pairs_bf16(ForwardParams p) { forward<128, Bf16, true>(p); }
JAXATOR_ATTENTION_KERNEL attention_forward_pairs_f16(ForwardParams p) { forward<128, F16, true>(p); }
