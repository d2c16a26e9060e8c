/// @file
/// Gradients of attention for head sizes up to 64.
#include "src/ops/attention/cdna_backward.h"

using namespace jaxator::cdna;
using attention::BackwardParams, attention::backward, attention::Gradient;

#define JAXATOR_ENTRIES(gradient, name)                                                                                         \
  JAXATOR_ATTENTION_KERNEL attention_##name##_bf16(BackwardParams p) { backward<64, Bf16, false, Gradient::gradient>(p); }      \
  JAXATOR_ATTENTION_KERNEL attention_##name##_f16(BackwardParams p) { backward<64, F16, false, Gradient::gradient>(p); }        \
  JAXATOR_ATTENTION_KERNEL attention_##name##_pairs_bf16(BackwardParams p) { backward<64, Bf16, true, Gradient::gradient>(p); } \
  JAXATOR_ATTENTION_KERNEL attention_##name##_pairs_f16(BackwardParams p) { backward<64, F16, true, Gradient::gradient>(p); }
JAXATOR_ENTRIES(query, dq)
JAXATOR_ENTRIES(key, dk)
JAXATOR_ENTRIES(value, dv)
