/// @file
/// Instructions that follow another one too closely. Hardware does not wait in these cases: so many wait states (other
/// instructions, or s_nop) have to lie between them. After the tables of required software wait states in AMD's CDNA3 and CDNA4
/// ISA documents, as LLVM applies them.
#pragma once

#include <array>

#include "emulator/src/decode/instruction.h"

namespace jaxator::emulator {

class Hazards {
 public:
  explicit Hazards(Architecture architecture) : gfx950_(architecture == Architecture::gfx950) {}

  /// Before the instruction executes. Reports to the findings of the wave's launch, then records the instruction.
  void check(Wave& wave, const Instruction& instruction);

 private:
  /// When something last happened, in wait states; 0: long ago.
  using Moment = u32;

  struct MatrixWrite {
    Moment at = 0;
    u8 passes = 0;
    bool is_xdl = false, is_double = false;
    u16 first = 0, count = 0;  // registers of the whole result
  };
  struct VectorHistory {
    Moment by_valu = 0, by_transcendental = 0, by_part = 0, by_dot = 0, read_by_wide_store = 0, read_as_accumulator = 0;
    u8 accumulator_passes = 0;
    u32 dot_name = 0;
    MatrixWrite matrix;
  };

  bool near(Moment at, u32 needed) const { return at != 0 && now_ - at <= needed; }
  /// Remembers the requirement that is missed by most.
  template <class What> void require(Moment at, u32 needed, const What& what);

  void check_scalars(const Instruction& instruction);
  void check_special(const Instruction& instruction);
  void check_vector_source(const Instruction& instruction, u16 reg, int operand);
  void check_matrix_source(const Instruction& instruction, u16 reg, int operand);
  void check_vector_result(const Instruction& instruction, u16 reg);
  u32 after_matrix(const MatrixWrite& write, u32 more, u32 double_small, u32 double_large) const;

  void record(const Instruction& instruction);
  void record_matrix(const Instruction& instruction);
  void record_valu(const Instruction& instruction);

  bool gfx950_;
  u32 missed_ = 0;  // wait states, by the instruction being checked
  std::string missed_text_;
  Moment now_ = 100;
  u64 next_in_text_ = 0;  // behind the instruction that was checked last
  Moment exec_by_valu_ = 0, m0_by_salu_ = 0, set_register_ = 0;
  std::array<Moment, kScalarRegisters> scalar_by_valu_{};
  std::array<VectorHistory, kVectorRegisters> vector_{};
};

}  // namespace jaxator::emulator
