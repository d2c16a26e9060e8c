#include "emulator/src/checks/hazards.h"

#include <functional>

#include "emulator/src/machine/launch_state.h"

namespace jaxator::emulator {
namespace {

bool is_vector_memory(const Instruction& i) { return i.unit == Class::vector_memory || i.unit == Class::flat; }
bool is_memory(const Instruction& i) { return is_vector_memory(i) || i.unit == Class::lds || i.unit == Class::lds_permute; }
bool is_dot(const Instruction& i) { return i.name.starts_with("v_dot"); }
u32 name_hash(const Instruction& i) { return static_cast<u32>(std::hash<std::string>()(i.name)); }
bool is_lane_access(const Instruction& i) {
  return i.name == "v_readlane_b32" || i.name == "v_writelane_b32" || i.name == "v_readfirstlane_b32";
}

bool is_lane_swap(const Instruction& i) { return i.name.starts_with("v_permlane"); }

/// Part of a register, and its write is not forwarded to the next instruction. Of the instructions that keep the register's other
/// half these are, by LLVM's table, the conversions.
bool writes_part(const Instruction& i) {
  const bool converts = i.has(kKeepsRest) && !i.has(kIgnoresExec) && i.name.starts_with("v_cvt_");
  return i.unit == Class::vector_alu && ((i.sdwa.used && i.sdwa.destination != 6) || (i.op_sel & 8) != 0 || converts);
}

/// Stores of more than two registers read their data while the next instructions already execute. Those of buffers with an offset
/// register do not.
bool is_wide_store(const Instruction& i) {
  if (!i.has(kStore) || !is_vector_memory(i) || i.detail.bytes <= 8) return false;
  return i.detail.space != Space::buffer || !i.operand(3).is_scalar();
}

/// Passes of four clocks that a matrix instruction takes.
u8 passes_of(const Instruction& i) {
  const auto has = [&](const char* shape) { return i.name.find(shape) != std::string::npos; };
  if (i.has(kDouble)) return has("16x16") ? 8 : 4;
  const bool eight_bit = has("f8f6f4") && (i.cbsz < 2 || i.blgp < 2);
  if (has("32x32x1_") || has("32x32x2_f32") || has("32x32x4_2b")) return 16;
  if (has("16x16x1_") || has("16x16x4_4b") || has("16x16x4_f32")) return 8;
  if (has("4x4x")) return 2;
  return static_cast<u8>((has("32x32") ? 8 : 4) * (eight_bit ? 2 : 1));
}
bool is_single_precision(const Instruction& i) { return i.name.ends_with("_f32") && !i.name.ends_with("_xf32"); }

std::string name_of_scalar(int reg) {
  return reg == kVcc || reg == kVcc + 1 ? "VCC" : reg == kM0 ? "M0" : reg == kScc ? "SCC" : "s" + std::to_string(reg);
}
std::string name_of(u16 reg) {
  return reg < kFirstAccumulator ? "v" + std::to_string(reg) : "a" + std::to_string(reg - kFirstAccumulator);
}

}  // namespace

template <class What> void Hazards::require(Moment at, u32 needed, const What& what) {
  if (!near(at, needed)) return;
  const u32 given = now_ - at - 1, missed = needed - given;
  if (missed <= missed_) return;
  missed_ = missed;
  missed_text_ =
      std::string(what()) + " " + std::to_string(given) + " wait states before, " + std::to_string(needed) + " are needed";
}

void Hazards::check(Wave& w, const Instruction& i) {
  // A branch that is taken occupies the wave for 8 clocks, two wait states, by LLVM's schedule of the scalar branch.
  now_ += w.pc == next_in_text_ ? 1 : 2;
  next_in_text_ = w.pc + i.size;
  missed_ = 0;
  check_scalars(i);
  check_special(i);
  if (i.unit == Class::vector_alu || i.unit == Class::matrix || is_memory(i)) {
    for (int k = 0; k < i.operand_count; k++) {
      const Operand& o = i.operand(k);
      for (int r = 0; o.is_vector() && r < o.registers; r++) {
        const u16 reg = static_cast<u16>(o.index + r);
        const bool is_result = k == 0 && !i.has(kNoResult) && !i.has(kToLds) && (!i.has(kAtomic) || i.returns);
        if (is_result) check_vector_result(i, reg);
        if (!is_result || i.has(kSwaps)) check_vector_source(i, reg, k);
      }
    }
  }
  if (missed_ != 0) w.group->launch->findings.add(w, i, Kind::hazard, missed_text_);
  record(i);
}

void Hazards::check_scalars(const Instruction& i) {
  const bool vector_alu = i.unit == Class::vector_alu || i.unit == Class::matrix;
  if (!vector_alu && !is_vector_memory(i)) return;
  for (const RegisterRange& range : i.sources) {
    for (int k = 0; !range.is_vector && k < range.count; k++) {
      const int reg = range.first + k;
      if (reg == kExec || reg == kExec + 1) continue;
      const auto by = [&] { return name_of_scalar(reg) + " was written by a vector instruction"; };
      if (is_vector_memory(i))
        require(scalar_by_valu_[static_cast<size_t>(reg)], 5, by);
      else
        require(scalar_by_valu_[static_cast<size_t>(reg)], 2, by);
    }
  }
  if ((i.name == "v_readlane_b32" || i.name == "v_writelane_b32") && i.operand(2).is_scalar())
    require(scalar_by_valu_[i.operand(2).index], 4, [] { return "the lane's number was written by a vector instruction"; });
  if (i.name.starts_with("v_div_fmas"))
    require(std::max(scalar_by_valu_[kVcc], scalar_by_valu_[kVcc + 1]), 4,
            [] { return "VCC was written by a vector instruction"; });
}

void Hazards::check_special(const Instruction& i) {
  const auto by_valu = [] { return "EXEC was written by a vector instruction"; };
  if (i.dpp.used) require(exec_by_valu_, 5, by_valu);
  if (is_lane_access(i) || is_lane_swap(i) || i.unit == Class::matrix) require(exec_by_valu_, 4, by_valu);
  const bool reads_m0 =
      i.has(kToLds) || i.name.starts_with("s_movrel") || i.name == "s_sendmsg" || (i.unit == Class::lds && i.has(kReadsM0));
  if (reads_m0) require(m0_by_salu_, 1, [] { return "M0 was written"; });
  if (i.name == "s_getreg_b32") require(set_register_, 2, [] { return "a hardware register was written"; });
}

/// Wait states for a matrix instruction's result: its passes and `more`, one more on gfx950 for more than two passes.
u32 Hazards::after_matrix(const MatrixWrite& write, u32 more, u32 double_small, u32 double_large) const {
  if (write.is_double) return write.passes == 4 ? double_small : double_large;
  if (!write.is_xdl) return write.passes + more - 1;
  return write.passes + more + (gfx950_ && write.passes != 2 ? 1 : 0);
}

void Hazards::check_vector_source(const Instruction& i, u16 reg, int operand) {
  const VectorHistory& history = vector_[reg];
  if (i.unit == Class::matrix) return check_matrix_source(i, reg, operand);
  const auto written = [reg](const char* how) { return [reg, how] { return name_of(reg) + " was written " + how; }; };
  const MatrixWrite& matrix = history.matrix;
  if (matrix.at != 0)
    require(matrix.at, is_memory(i) ? after_matrix(matrix, 3, 9, 18) : after_matrix(matrix, 3, 6, 11),
            written("by a matrix instruction"));
  if (i.unit != Class::vector_alu) return;
  if (is_lane_swap(i)) require(history.by_valu, 2, written("by a vector instruction"));
  if (i.dpp.used && operand == (i.has(kTwoResults) ? 2 : 1)) require(history.by_valu, 2, written("by a vector instruction"));
  if (i.name == "v_readlane_b32" || i.name == "v_readfirstlane_b32")
    require(history.by_valu, 1, written("by a vector instruction"));
  if (!i.has(kTranscendental)) require(history.by_transcendental, 1, written("by a transcendental instruction"));
  require(history.by_part, 1, written("in part"));
  const bool same_dot = is_dot(i) && name_hash(i) == history.dot_name;
  if (!same_dot || operand != 3) require(history.by_dot, 3, written("by a dot product"));
}

void Hazards::check_matrix_source(const Instruction& i, u16 reg, int operand) {
  const VectorHistory& history = vector_[reg];
  const auto written = [reg](const char* how) { return [reg, how] { return name_of(reg) + " was written " + how; }; };
  require(history.by_valu, 2, written("by a vector instruction"));
  const MatrixWrite& matrix = history.matrix;
  if (matrix.at == 0) return;
  if (operand != 3) return require(matrix.at, after_matrix(matrix, 3, 6, 11), written("by a matrix instruction"));
  // The accumulator of the same registers is passed on inside the matrix core.
  const Operand& c = i.operand(3);
  const bool same = c.index == matrix.first && c.registers == matrix.count;
  const bool is_xdl = !i.has(kDouble) && !is_single_precision(i);
  u32 needed = 0;
  if (same)
    needed = matrix.is_double && i.has(kDouble) && matrix.passes == 4 ? 4 : matrix.passes == 2 ? 2 : 0;
  else if (matrix.is_double)
    needed = is_xdl ? 0 : matrix.passes == 4 ? 4 : 9;
  else if (!is_xdl || matrix.is_xdl)
    needed = after_matrix(matrix, 1, 0, 0);
  require(matrix.at, needed, written("by a matrix instruction"));
}

void Hazards::check_vector_result(const Instruction& i, u16 reg) {
  const VectorHistory& history = vector_[reg];
  if (i.unit == Class::matrix) return;
  const MatrixWrite& matrix = history.matrix;
  const auto was = [reg](const char* how) { return [reg, how] { return name_of(reg) + " was " + how; }; };
  if (matrix.at != 0) require(matrix.at, after_matrix(matrix, 3, 6, 11), was("written by a matrix instruction"));
  if (history.read_as_accumulator != 0) {
    static constexpr u8 kNeeded[] = {1, 3, 7, 15};  // for 2, 4, 8, 16 passes
    require(history.read_as_accumulator, kNeeded[std::countr_zero(history.accumulator_passes) - 1],
            was("read as an accumulator by a matrix instruction"));
  }
  if (i.unit != Class::vector_alu) return;
  require(history.read_by_wide_store, 2, was("read by a store of more than 8 bytes a lane"));
  if (!is_dot(i) || name_hash(i) != history.dot_name) require(history.by_dot, 3, was("written by a dot product"));
}

// ---- recording -------------------------------------------------------------------------------------------------------

void Hazards::record(const Instruction& i) {
  if (i.unit == Class::nop && i.name == "s_nop") now_ += i.words[0] & 15;
  if (i.unit == Class::matrix) record_matrix(i);
  if (i.unit == Class::vector_alu) record_valu(i);
  if (i.unit == Class::scalar_alu)
    for (const RegisterRange& range : i.results)
      if (!range.is_vector && range.first <= kM0 && range.first + range.count > kM0) m0_by_salu_ = now_;
  if (i.name.starts_with("s_setreg")) set_register_ = now_;
  if (is_wide_store(i)) {
    const Operand& data = i.operand(i.detail.space == Space::buffer ? 0 : 1);
    for (int r = 0; data.is_vector() && r < data.registers; r++)
      vector_[static_cast<size_t>(data.index + r)].read_by_wide_store = now_;
  }
}

void Hazards::record_matrix(const Instruction& i) {
  const Operand &result = i.operand(0), &c = i.operand(3);
  const bool is_xdl = !i.has(kDouble) && !is_single_precision(i), sparse = i.name.starts_with("v_smfmac");
  const u8 passes = passes_of(i);
  for (int r = 0; r < result.registers; r++) {
    VectorHistory& history = vector_[static_cast<size_t>(result.index + r)];
    history.matrix = {now_, passes, is_xdl, i.has(kDouble), result.index, result.registers};
    history.by_valu = history.by_dot = history.by_part = history.by_transcendental = 0;
  }
  for (int r = 0; is_xdl && !sparse && c.is_vector() && r < c.registers; r++) {
    VectorHistory& history = vector_[static_cast<size_t>(c.index + r)];
    history.read_as_accumulator = now_, history.accumulator_passes = passes;
  }
}

void Hazards::record_valu(const Instruction& i) {
  for (const RegisterRange& range : i.results) {
    for (int k = 0; k < range.count; k++) {
      const size_t reg = static_cast<size_t>(range.first + k);
      if (!range.is_vector) {
        scalar_by_valu_[reg] = now_;
        if (reg == kExec) exec_by_valu_ = now_;
        continue;
      }
      VectorHistory& history = vector_[reg];
      history.matrix.at = 0;
      history.by_dot = is_dot(i) ? now_ : 0;
      history.dot_name = is_dot(i) ? name_hash(i) : 0;
      history.by_valu = is_dot(i) ? 0 : now_;
      history.by_transcendental = i.has(kTranscendental) ? now_ : 0;
      history.by_part = writes_part(i) ? now_ : 0;
    }
  }
}

}  // namespace jaxator::emulator
