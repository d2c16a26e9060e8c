/// @file
/// Reports and code objects as JSON, for the C interface.
#pragma once

#include "emulator/src/common.h"

namespace jaxator::emulator {

std::string to_json(const Report& report);
std::string to_json(const CodeObject& code);

}  // namespace jaxator::emulator
