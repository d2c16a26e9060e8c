/// @file
/// Modifiers as LLVM prints them, behind the operands: a word, or "key:value".
#pragma once

#include <string_view>

#include "emulator/src/decode/instruction.h"

namespace jaxator::emulator {

/// Sets what the modifier says. Throws DecodeError for one that is unknown or has no meaning for the instruction.
void apply_modifier(std::string_view modifier, Instruction& instruction);

}  // namespace jaxator::emulator
