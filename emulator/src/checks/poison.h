/// @file
/// Uninitialised values: one mark for each bit of registers, LDS, scratch and global memory. Marks move with data. What
/// arithmetic does to them is found by executing an instruction several times with different bits where its operands are marked:
/// result bits that differ are uninitialised, so that `and` with 0, a selection by EXEC, or a product with a column that nobody
/// stores clear them exactly. It is an error if a marked bit decides where memory is touched, a branch or EXEC, or is stored to
/// global memory.
#pragma once

#include <memory>

#include "emulator/src/isa/atomics.h"
#include "emulator/src/isa/memory_access.h"

namespace jaxator::emulator {

class Poison {
 public:
  Poison();

  /// Marks all registers of the kernel but the first scalar registers, EXEC, and v0 of the lanes.
  void start(const Wave& wave, int defined_scalars);

  /// Runs the instruction and marks its results. Memory instructions mark theirs by the functions below.
  void execute(Wave& wave, const Instruction& instruction);

  void loaded(Wave& wave, const Instruction& instruction, u64 lanes, Deliver deliver);
  void loaded_scalars(Wave& wave, const Instruction& instruction);
  void stored(Wave& wave, const Instruction& instruction, u64 lanes, Collect collect);
  void fetched(Wave& wave, const Instruction& instruction);
  void updated(Wave& wave, const Instruction& instruction, u64 lanes, AtomicSource source);

 private:
  bool touches_marks(const Wave& wave, const Instruction& instruction) const;
  void execute_in_trials(Wave& wave, const Instruction& instruction);
  void check_addresses(Wave& wave, const Instruction& instruction);
  void report(Wave& wave, const Instruction& instruction, const std::string& what, int lane = -1);

  void read_marks(const Wave& wave, const Access& access, u8* marks) const;
  void write_marks(Wave& wave, const Access& access, const u8* marks);
  /// Whether any byte was marked.
  bool collect_marks(const Wave& wave, const AccessList& accesses, LaneValues& marks) const;
  void count_lanes(const RegisterRange& range);

  std::unique_ptr<LaneRegister[]> vector_;  // marks
  u64 lanes_[kVectorRegisters];             // of each register that have a mark
  u32 scalar_[kScalarRegisters];
  std::vector<u8> scratch_;
};

}  // namespace jaxator::emulator
