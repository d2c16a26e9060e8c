/// @file
/// The flop rate of products that never leave the registers: what shares of peak are shares of.
#pragma once

namespace jaxator::JAXATOR_ISA {

/// Flops a second of one thread, float32 FMA or bfloat16 dot, over about `seconds`. 0 where the instruction is missing.
double peak_flops(bool bf16_dot, double seconds);

}  // namespace jaxator::JAXATOR_ISA
