/// @file
/// What is looked for while a wave executes. The scheduler calls `execute` instead of the instruction's own function; memory
/// instructions report what they moved.
#pragma once

#include "emulator/src/checks/counters.h"
#include "emulator/src/checks/group_checks.h"
#include "emulator/src/checks/hazards.h"
#include "emulator/src/checks/order.h"
#include "emulator/src/checks/poison.h"
#include "emulator/src/isa/atomics.h"

namespace jaxator::emulator {

class WaveChecks {
 public:
  /// For a wave whose registers have been set up: `defined_scalars` first scalar registers and v0 of its lanes hold something.
  /// Also for the next wave in the same place.
  void start(Wave& wave, int defined_scalars);

  void execute(Wave& wave, const Instruction& instruction);

  // From memory instructions, after the data moved. The accesses are in the wave.
  void loaded(Wave& wave, const Instruction& instruction, u64 lanes, Deliver deliver);
  void loaded_scalars(Wave& wave, const Instruction& instruction);
  void stored(Wave& wave, const Instruction& instruction, u64 lanes, Collect collect);
  void fetched(Wave& wave, const Instruction& instruction);
  void updated(Wave& wave, const Instruction& instruction, u64 lanes, AtomicSource source);

  WaveOrder& order() { return order_; }

 private:
  bool on(Check check) const { return (checks_ & check) != 0; }
  void check_waits(Wave& wave, const Instruction& instruction);
  void count_banks(Wave& wave, const Instruction& instruction, const AccessList& accesses);
  void trace(Wave& wave, const Instruction& instruction);

  unsigned checks_ = 0;
  bool traced_ = false;
  u32 lds_cycles_ = 0;  // of the instruction being executed
  Counters counters_;
  WaveOrder order_;
  std::unique_ptr<Hazards> hazards_;
  std::unique_ptr<Poison> poison_;
};

}  // namespace jaxator::emulator
