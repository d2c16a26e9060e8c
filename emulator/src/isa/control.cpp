/// @file
/// Branches, waits, barriers, and registers of the machine (SOPP, and the rest of SOP1 and SOPK).
#include "emulator/src/isa/scalars.h"
#include "emulator/src/machine/launch_state.h"

namespace jaxator::emulator {
namespace {

// ---- branches --------------------------------------------------------------------------------------------------------

enum class Condition { always, scc0, scc1, vccz, vccnz, execz, execnz };

u64 target_of(const Instruction& i, int operand) {
  return i.pc + 4 + static_cast<u64>(i64{static_cast<i16>(i.operand(operand).bits)} * 4);
}

template <Condition condition> void branch(Wave& w, const Instruction& i) {
  bool taken = true;
  switch (condition) {
    case Condition::always:
      break;
    case Condition::scc0:
      taken = !w.scc();
      break;
    case Condition::scc1:
      taken = w.scc();
      break;
    case Condition::vccz:
      taken = w.scalar64(kVcc) == 0;
      break;
    case Condition::vccnz:
      taken = w.scalar64(kVcc) != 0;
      break;
    case Condition::execz:
      taken = w.exec() == 0;
      break;
    case Condition::execnz:
      taken = w.exec() != 0;
      break;
  }
  if (taken) w.next_pc = target_of(i, 0);
}

void get_pc(Wave& w, const Instruction& i) { write_scalar64(w, i.operand(0), i.pc + 4); }
void set_pc(Wave& w, const Instruction& i) { w.next_pc = read_scalar64(w, i.operand(0)); }
void swap_pc(Wave& w, const Instruction& i) {
  const u64 target = read_scalar64(w, i.operand(1));
  write_scalar64(w, i.operand(0), i.pc + 4);
  w.next_pc = target;
}
void call(Wave& w, const Instruction& i) {
  write_scalar64(w, i.operand(0), i.pc + 4);
  w.next_pc = target_of(i, 1);
}

void add_branches(Table& t) {
  const auto add = [&](const char* name, Function execute, u32 traits) {
    t.add(name, {execute, Class::branch, traits | kNoResult});
  };
  add("s_branch", branch<Condition::always>, 0);
  add("s_cbranch_scc0", branch<Condition::scc0>, kReadsScc);
  add("s_cbranch_scc1", branch<Condition::scc1>, kReadsScc);
  add("s_cbranch_vccz", branch<Condition::vccz>, kReadsVcc);
  add("s_cbranch_vccnz", branch<Condition::vccnz>, kReadsVcc);
  add("s_cbranch_execz", branch<Condition::execz>, kReadsExec);
  add("s_cbranch_execnz", branch<Condition::execnz>, kReadsExec);
  add("s_setpc_b64", set_pc, 0);
  t.add("s_getpc_b64", {get_pc, Class::scalar_alu});
  t.add("s_swappc_b64", {swap_pc, Class::branch});
  t.add("s_call_b64", {call, Class::branch});
}

// ---- the wave's progress ---------------------------------------------------------------------------------------------

void no_operation(Wave&, const Instruction&) {}
void end_program(Wave& w, const Instruction&) { w.done = true; }
void barrier(Wave& w, const Instruction&) { w.at_barrier = true; }
void trap(Wave&, const Instruction& i) { throw Fault{Kind::trap, "s_trap " + std::to_string(i.words[0] & 0xFF)}; }

/// Clocks that the emulator does not count: the number of instructions stands for them.
void get_time(Wave& w, const Instruction& i) { write_scalar64(w, i.operand(0), w.executed); }

void add_progress(Table& t) {
  const auto add = [&](const char* name, Function execute, Class unit) {
    t.add(name, {.execute = execute, .unit = unit, .traits = kNoResult, .by_encoding = true});
  };
  // What only concerns time, caches that the emulator does not have, and tools.
  for (const char* name : {"s_nop", "s_sleep", "s_setprio", "s_sethalt", "s_setkill", "s_wakeup", "s_ttracedata",
                           "s_incperflevel", "s_decperflevel", "s_icache_inv", "s_dcache_inv", "s_dcache_wb", "s_dcache_inv_vol",
                           "s_dcache_wb_vol", "s_sendmsg", "s_cbranch_cdbgsys", "s_cbranch_cdbguser", "v_clrexcp"})
    add(name, no_operation, Class::nop);
  add("s_waitcnt", no_operation, Class::wait);
  add("s_barrier", barrier, Class::barrier);
  add("s_endpgm", end_program, Class::end);
  add("s_endpgm_saved", end_program, Class::end);
  add("s_trap", trap, Class::end);
  t.add("s_memtime", {get_time, Class::scalar_memory});
  t.add("s_memrealtime", {get_time, Class::scalar_memory});
}

// ---- registers of the machine ----------------------------------------------------------------------------------------

enum HardwareRegister : u32 { kModeRegister = 1, kHardwareId = 4, kXccId = 20 };

struct Field {
  u32 id;
  int shift, bits;
  u32 mask() const { return static_cast<u32>(((u64{1} << bits) - 1) << shift); }
};
Field field_of(const Instruction& i) {
  const u32 immediate = i.words[0] & 0xFFFF;
  return {immediate & 63, static_cast<int>(immediate >> 6 & 31), static_cast<int>(immediate >> 11) + 1};
}
Operand scalar_field(const Instruction& i) {
  Operand operand;
  operand.type = Operand::Type::scalar;
  operand.index = i.words[0] >> 16 & 127;
  return operand;
}

void get_register(Wave& w, const Instruction& i) {
  const Field field = field_of(i);
  u32 value = 0;
  if (field.id == kModeRegister)
    value = w.mode;
  else if (field.id == kHardwareId)
    value = static_cast<u32>(w.id);
  else if (field.id == kXccId)
    value = static_cast<u32>(w.group->index % 8);  // workgroups go round the eight dies
  else
    throw Fault{Kind::unsupported, "hardware register " + std::to_string(field.id) + " is not modelled"};
  write_scalar(w, i.operand(0), (value & field.mask()) >> field.shift);
}

void set_register(Wave& w, const Instruction& i, u32 value) {
  const Field field = field_of(i);
  if (field.id != kModeRegister)
    throw Fault{Kind::unsupported, "writing hardware register " + std::to_string(field.id) + " is not modelled"};
  w.mode = (w.mode & ~field.mask()) | (value << field.shift & field.mask());
  if ((w.mode & kRounding) != 0) throw Fault{Kind::unsupported, "a rounding mode other than to nearest even is not modelled"};
  if ((w.mode & kDenormalsF64) != kDenormalsF64)
    throw Fault{Kind::unsupported, "flushing denormals of half and double precision is not modelled"};
}
void set_register_from_scalar(Wave& w, const Instruction& i) { set_register(w, i, read_scalar(w, i.operand(0))); }
void set_register_from_literal(Wave& w, const Instruction& i) { set_register(w, i, i.words[1]); }

/// s_set_gpr_idx_on: vector registers of the sources and destinations in its bits are counted from M0's low byte on.
void index_on(Wave& w, const Instruction& i) {
  w.index_mode = i.index_mode;
  w.scalar[kM0] = (w.scalar[kM0] & 0xFFFF0F00) | (read_scalar(w, i.operand(0)) & 255) | u32{i.index_mode} << 12;
}
void index_off(Wave& w, const Instruction&) { w.index_mode = 0; }
void index_mode(Wave& w, const Instruction& i) {
  w.index_mode = i.index_mode;
  w.scalar[kM0] = (w.scalar[kM0] & 0xFFFF0FFF) | u32{i.index_mode} << 12;
}
void set_index(Wave& w, const Instruction& i) { w.scalar[kM0] = (w.scalar[kM0] & ~255u) | (read_scalar(w, i.operand(0)) & 255); }

/// The first operand of the text, which has more than the parser of operands takes.
void take_scalar_of_sopk(Instruction& i, Architecture) { i.operands[i.operand_count++] = scalar_field(i); }
void take_index_mode_of_sopc(Instruction& i, Architecture) {
  const u32 source = i.words[0] & 255;
  Operand& operand = i.operands[i.operand_count++];
  if (source < 128) {
    operand.type = Operand::Type::scalar;
    operand.index = static_cast<u16>(source);
  } else if (source <= 192) {
    operand.type = Operand::Type::constant;
    operand.bits = source - 128;
  } else {
    throw DecodeError("source " + std::to_string(source) + " of " + i.name + " is not implemented");
  }
  i.index_mode = i.words[0] >> 8 & 15;
}
void take_index_mode_of_sopp(Instruction& i, Architecture) { i.index_mode = i.words[0] & 15; }

void add_registers(Table& t) {
  const auto add = [&](const char* name, Function execute, u32 traits, void (*prepare)(Instruction&, Architecture)) {
    t.add(name, {.execute = execute, .unit = Class::scalar_alu, .traits = traits, .by_encoding = true, .prepare = prepare});
  };
  add("s_getreg_b32", get_register, 0, take_scalar_of_sopk);
  add("s_setreg_b32", set_register_from_scalar, kNoResult, take_scalar_of_sopk);
  add("s_setreg_imm32_b32", set_register_from_literal, kNoResult, nullptr);
  add("s_set_gpr_idx_on", index_on, kNoResult | kReadsM0 | kWritesM0, take_index_mode_of_sopc);
  add("s_set_gpr_idx_off", index_off, kNoResult, nullptr);
  add("s_set_gpr_idx_mode", index_mode, kNoResult | kReadsM0 | kWritesM0, take_index_mode_of_sopp);
  t.add("s_set_gpr_idx_idx", {set_index, Class::scalar_alu, kNoResult | kReadsM0 | kWritesM0});
}

}  // namespace

void add_control(Table& t) {
  add_branches(t);
  add_progress(t);
  add_registers(t);
}

}  // namespace jaxator::emulator
