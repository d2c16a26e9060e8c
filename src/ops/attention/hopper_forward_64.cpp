/// @file
/// Attention forward, head sizes up to 64.
#include "src/ops/attention/hopper_forward_kernel.h"

namespace jaxator::hopper::attention {

JAXATOR_FORWARD_ENTRIES(64, bf16, Bf16)
JAXATOR_FORWARD_ENTRIES(64, f16, F16)

}  // namespace jaxator::hopper::attention
