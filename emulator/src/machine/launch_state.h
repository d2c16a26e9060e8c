/// @file
/// What all workgroups of a launch share.
#pragma once

#include "emulator/src/checks/findings.h"
#include "emulator/src/machine/wave.h"
#include "emulator/src/object/code_object.h"

namespace jaxator::emulator {

class Coverage;
class GlobalOrder;

struct LaunchState {
  const CodeObject::Implementation& code;
  const KernelDescriptor& kernel;
  const LaunchOptions& options;
  Architecture architecture;
  MemoryMap memory;
  u64 arguments = 0, packet = 0;  // addresses
  u32 lds_bytes = 0;
  int waves_per_group = 0;
  Findings& findings;
  GlobalOrder* order = nullptr;  // of kRaces
  Coverage* coverage = nullptr;  // of kCoverage

  bool checks(Check check) const { return (options.checks & check) != 0; }
  bool gfx950() const { return architecture == Architecture::gfx950; }
};

inline bool is_gfx950(const Wave& wave) { return wave.group->launch->gfx950(); }

}  // namespace jaxator::emulator
