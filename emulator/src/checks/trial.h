/// @file
/// Runs an instruction with different bits in place of uninitialised ones, and finds which bits of its results depend on them.
#pragma once

#include <vector>

#include "emulator/src/machine/wave.h"

namespace jaxator::emulator {

class Trial {
 public:
  /// The planes of marks are read now and written by `run_all`.
  Trial(const Wave& wave, const Instruction& instruction, LaneRegister* vector_marks, u32* scalar_marks);

  /// Executes with several contents. The wave is left as one execution with its actual contents leaves it.
  void run_all(Wave& wave, const Instruction& instruction);

  bool branches_differ = false;

 private:
  struct Row {
    u16 index;
    bool is_result;
    LaneRegister before, first, differences;
  };

  /// `bits(row or scalar, lane)` in place of what is marked.
  template <class Bits> void fill(Wave& wave, const Bits& bits);
  void fill_from_other(Wave& wave, const Instruction& instruction);
  void run_filled(Wave& wave, const Instruction& instruction);
  void restore(Wave& wave) const;
  void keep_first(const Wave& wave);
  void compare(const Wave& wave);

  bool has_first_ = false;
  LaneRegister* vector_marks_;
  u32* scalar_marks_;
  std::vector<Row> rows_;  // registers that the instruction names
  u32 scalars_[kScalarRegisters], first_scalars_[kScalarRegisters], scalar_differences_[kScalarRegisters] = {};
  std::vector<u16> scalar_results_;
  u64 next_pc_, first_next_pc_ = 0;
  u32 mode_;
  u8 index_mode_;
};

}  // namespace jaxator::emulator
