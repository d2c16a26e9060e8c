/// @file
/// The findings of a launch, one for each instruction and kind.
#pragma once

#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "emulator/src/common.h"

namespace jaxator::emulator {

class Wave;
struct Instruction;

class Findings {
 public:
  /// Describes the first of its kind at an instruction (and at `other`, the address of a second one), counts the rest.
  void add(const Wave& wave, const Instruction& instruction, Kind kind, const std::string& message, int lane = -1, u64 other = 0);
  /// At a program counter, where there may be no instruction.
  void add_at(const Wave& wave, u64 pc, Kind kind, const std::string& message);

  void add_banks(u64 pc, u32 cycles, u32 conflict_free);

  /// In order of kind and address.
  std::vector<Finding> take();
  std::vector<BankUse> take_banks(const CodeObject::Implementation& code);

  // Of the traced workgroup, which alone writes them.
  std::vector<TraceStep> trace;
  std::vector<Span> loaded, stored;  // pieces of global memory
  Traffic take_traffic();

 private:
  void add(const Wave& wave, u64 pc, std::string text, Kind kind, const std::string& message, int lane, u64 other);

  struct Cycles {
    u64 executions = 0, cycles = 0, conflict_free = 0;
  };
  std::mutex mutex_;
  std::map<std::tuple<Kind, u64, u64>, Finding> all_;
  std::map<u64, Cycles> banks_;
};

}  // namespace jaxator::emulator
