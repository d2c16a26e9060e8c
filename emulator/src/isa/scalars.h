/// @file
/// Scalar operands.
#pragma once

#include "emulator/src/isa/table.h"
#include "emulator/src/machine/wave.h"

namespace jaxator::emulator {

/// High words of flat addresses that are the lane's scratch memory and the group's LDS.
inline constexpr u32 kPrivateAperture = 0x70000001, kSharedAperture = 0x70000002;

/// Register `part` of an operand, or that half of a 64-bit constant.
u32 read_scalar(const Wave& w, const Operand& operand, int part = 0);
u64 read_scalar64(const Wave& w, const Operand& operand);
/// A constant as the 64 bits of a double.
u64 double_bits(const Operand& operand);

void write_scalar(Wave& w, const Operand& operand, u32 value, int part = 0);
void write_scalar64(Wave& w, const Operand& operand, u64 value);

}  // namespace jaxator::emulator
