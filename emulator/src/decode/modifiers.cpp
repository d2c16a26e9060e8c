#include "emulator/src/decode/modifiers.h"

#include <algorithm>

#include "emulator/src/decode/operand.h"

namespace jaxator::emulator {
namespace {

[[noreturn]] void refuse(std::string_view modifier, const Instruction& i) {
  throw DecodeError("modifier " + std::string(modifier) + " of " + i.name + " is not implemented");
}

/// "[1,0,1]" as bits 0b101.
u8 parse_bits(std::string_view value) {
  u8 bits = 0;
  int position = 0;
  for (std::string_view part : split(value.substr(1, value.size() - 2), ','))
    bits |= static_cast<u8>((parse_number(part) & 1) << position++);
  return bits;
}

u8 parse_quad(std::string_view value) {
  u8 lanes = 0;
  int position = 0;
  for (std::string_view part : split(value.substr(1, value.size() - 2), ',')) {
    lanes |= static_cast<u8>((parse_number(part) & 3) << position);
    position += 2;
  }
  return lanes;
}

bool is_memory(const Instruction& i) {
  return i.unit == Class::vector_memory || i.unit == Class::flat || i.unit == Class::scalar_memory || i.unit == Class::cache;
}

/// DPP_CTRL as the ISA documents encode it.
int dpp_control(std::string_view key, std::string_view value) {
  struct Shift {
    std::string_view key;
    int base;
  };
  static constexpr Shift kShifts[] = {{"row_shl", 0x100}, {"row_shr", 0x110}, {"row_ror", 0x120}, {"row_newbcast", 0x150}};
  static constexpr Shift kFixed[] = {{"wave_shl", 0x130}, {"wave_rol", 0x134},   {"wave_shr", 0x138},
                                     {"wave_ror", 0x13C}, {"row_mirror", 0x140}, {"row_half_mirror", 0x141}};
  if (key == "quad_perm") return parse_quad(value);
  for (const Shift& shift : kShifts)
    if (shift.key == key) return shift.base + static_cast<int>(parse_number(value) & 15);
  for (const Shift& fixed : kFixed)
    if (fixed.key == key) return fixed.base;
  if (key == "row_bcast") return value == "15" ? 0x142 : 0x143;
  return -1;
}

bool apply_dpp(std::string_view key, std::string_view value, Instruction& i) {
  if (!i.dpp.used) return false;
  if (key == "row_mask")
    i.dpp.row_mask = static_cast<u8>(parse_number(value));
  else if (key == "bank_mask")
    i.dpp.bank_mask = static_cast<u8>(parse_number(value));
  else if (key == "bound_ctrl")
    i.dpp.bound_control = true;  // printed as 0 or 1, only where the bit is set
  else if (const int control = dpp_control(key, value); control >= 0)
    i.dpp.control = control;
  else
    return false;
  return true;
}

u8 sdwa_select(std::string_view value) {
  static constexpr std::string_view kNames[] = {"BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD"};
  const auto found = std::find(std::begin(kNames), std::end(kNames), value);
  if (found == std::end(kNames)) throw DecodeError("SDWA selects " + std::string(value));
  return static_cast<u8>(found - std::begin(kNames));
}

bool apply_sdwa(std::string_view key, std::string_view value, Instruction& i) {
  if (!i.sdwa.used) return false;
  if (key == "dst_sel")
    i.sdwa.destination = sdwa_select(value);
  else if (key == "src0_sel")
    i.sdwa.source[0] = sdwa_select(value);
  else if (key == "src1_sel")
    i.sdwa.source[1] = sdwa_select(value);
  else if (key == "dst_unused")
    i.sdwa.unused = value == "UNUSED_PRESERVE" ? Sdwa::Unused::preserve
                    : value == "UNUSED_SEXT"   ? Sdwa::Unused::sign_extend
                                               : Sdwa::Unused::pad;
  else
    return false;
  return true;
}

bool apply_matrix(std::string_view key, std::string_view value, Instruction& i) {
  if (i.unit != Class::matrix) return false;
  if (key == "cbsz")
    i.cbsz = static_cast<u8>(parse_number(value));
  else if (key == "abid")
    i.abid = static_cast<u8>(parse_number(value));
  else if (key == "blgp")
    i.blgp = static_cast<u8>(parse_number(value));
  else if (key == "neg")
    i.neg_lo = parse_bits(value);  // of double precision, in place of blgp
  else
    return false;
  return true;
}

bool apply_memory(std::string_view key, std::string_view value, Instruction& i) {
  const bool lds = i.unit == Class::lds || i.unit == Class::lds_permute;
  if (lds && key == "offset0")
    i.offset0 = static_cast<u8>(parse_number(value));
  else if (lds && key == "offset1")
    i.offset1 = static_cast<u8>(parse_number(value));
  else if (lds && key == "offset" && value.starts_with("swizzle"))
    return true;  // read from the encoding
  else if ((lds || is_memory(i)) && key == "offset")
    i.offset = static_cast<i32>(parse_number(value));
  else if (!is_memory(i))
    return false;
  else if (key == "offen")
    i.offen = true;
  else if (key == "idxen")
    i.idxen = true;
  else if (key == "sc0" || key == "glc")
    i.sc0 = true;
  else if (key == "sc1" || key == "scc")
    i.sc1 = true;
  else if (key == "nt" || key == "slc")
    i.nt = true;
  else if (key == "lds" && i.detail.space == Space::buffer && i.has(kLoad))
    i.traits |= kToLds;
  else
    return false;
  return true;
}

bool apply_arithmetic(std::string_view key, std::string_view value, Instruction& i) {
  if (key == "clamp" && i.has(kClamp))
    i.clamp = true;
  else if (key == "mul" && i.has(kOutputModifier))
    i.output_modifier = value == "2" ? 1 : 2;
  else if (key == "div" && i.has(kOutputModifier))
    i.output_modifier = 3;
  else if (key == "op_sel" && i.has(kOpSel))
    i.op_sel = parse_bits(value);
  else if (key == "op_sel_hi" && i.has(kOpSel))
    i.op_sel_hi = parse_bits(value);
  else if (key == "neg_lo" && i.has(kOpSel))
    i.neg_lo = parse_bits(value);
  else if (key == "neg_hi" && i.has(kOpSel))
    i.neg_hi = parse_bits(value);
  else if (key == "bitop3" && i.name.starts_with("v_bitop3"))
    i.bitop3 = static_cast<u8>(parse_number(value));
  else
    return false;
  return true;
}

}  // namespace

void apply_modifier(std::string_view modifier, Instruction& i) {
  const size_t colon = modifier.find(':');
  const std::string_view key = modifier.substr(0, colon);
  const std::string_view value = colon == modifier.npos ? std::string_view() : modifier.substr(colon + 1);
  if (apply_dpp(key, value, i) || apply_sdwa(key, value, i) || apply_matrix(key, value, i) || apply_memory(key, value, i) ||
      apply_arithmetic(key, value, i))
    return;
  refuse(modifier, i);
}

}  // namespace jaxator::emulator
