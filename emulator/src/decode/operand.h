/// @file
/// Operands as LLVM prints them.
#pragma once

#include <string_view>
#include <vector>

#include "emulator/src/decode/instruction.h"

namespace jaxator::emulator {

/// The parts between separators that are not within brackets or parentheses, without spaces at their ends.
std::vector<std::string_view> split(std::string_view text, char separator);

/// An operand of type none if the text is none.
Operand parse_operand(std::string_view text);

/// A decimal or hexadecimal number, negative ones included. Throws DecodeError.
i64 parse_number(std::string_view text);

}  // namespace jaxator::emulator
