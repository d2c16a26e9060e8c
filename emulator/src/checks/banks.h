/// @file
/// Cycles that LDS takes for an instruction, from the addresses of its lanes.
#pragma once

#include "emulator/src/machine/wave.h"

namespace jaxator::emulator {

struct BankCycles {
  u32 taken = 0, conflict_free = 0;  // the second: one for each phase in which a lane takes part
};

/// Accesses of one width.
BankCycles bank_cycles(Architecture architecture, const AccessList& accesses, bool read);

}  // namespace jaxator::emulator
