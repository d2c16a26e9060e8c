/// @file
/// From an instruction's text to what the emulator executes.
#pragma once

#include "emulator/src/decode/instruction.h"

namespace jaxator::emulator {

/// Fills everything but pc, size and words, which must be set. Throws DecodeError that names the mnemonic, modifier or operand
/// that is not implemented.
void decode(std::string_view text, Architecture architecture, Instruction& instruction);

/// Sources, results and the highest registers from operands and traits.
void derive_registers(Instruction& instruction);

}  // namespace jaxator::emulator
