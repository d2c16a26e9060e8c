#include "emulator/src/isa/lanes.h"

namespace jaxator::emulator {
namespace {

/// The lane that DPP reads for lane l, or -1.
int dpp_source(const Instruction& i, int l) {
  const int row = l & ~15, in_row = l & 15, control = i.dpp.control, n = control & 15;
  if (control < 0x100) return (l & ~3) + (control >> 2 * (l & 3) & 3);  // quad_perm
  switch (control & 0x1F0) {
    case 0x100:
      return in_row + n < 16 ? l + n : -1;  // row_shl
    case 0x110:
      return in_row >= n ? l - n : -1;  // row_shr
    case 0x120:
      return row + ((in_row - n) & 15);  // row_ror
    case 0x150:
      return row + n;  // row_newbcast
    default:
      break;
  }
  switch (control) {
    case 0x130:
      return l < 63 ? l + 1 : -1;  // wave_shl
    case 0x134:
      return (l + 1) & 63;  // wave_rol
    case 0x138:
      return l > 0 ? l - 1 : -1;  // wave_shr
    case 0x13C:
      return (l - 1) & 63;  // wave_ror
    case 0x140:
      return row + 15 - in_row;  // row_mirror
    case 0x141:
      return (l & ~7) + 7 - (l & 7);  // row_half_mirror
    case 0x142:
      return l < 16 ? -1 : row - 1;  // row_bcast:15
    case 0x143:
      return l < 32 ? -1 : 31;  // row_bcast:31
    default:
      throw Fault{Kind::unknown_instruction, "DPP control " + hex(static_cast<u64>(control))};
  }
}

void apply_dpp(const Wave& w, const Instruction& i, Lanes<u32>& values, u64& written) {
  const Lanes<u32> from = values;
  const u64 exec = w.exec();
  for (int l = 0; l < kLanes; l++) {
    const bool enabled = (i.dpp.row_mask >> (l >> 4) & 1) != 0 && (i.dpp.bank_mask >> (l >> 2 & 3) & 1) != 0;
    const int source = dpp_source(i, l);
    const bool readable = source >= 0 && lane_in(exec, source);
    values[l] = readable ? from[source] : 0;
    if (!enabled || (!readable && !i.dpp.bound_control)) written &= ~(u64{1} << l);
  }
}

u32 select(u32 value, int selection, bool extend) {
  if (selection == 6) return value;
  const int bits = selection < 4 ? 8 : 16, shift = selection < 4 ? 8 * selection : 16 * (selection - 4);
  const u32 part = value >> shift & ((1u << bits) - 1);
  return extend ? static_cast<u32>(sign_extend(part, bits)) : part;
}

/// Puts the low bits of a value where SDWA says.
u32 place(u32 value, u32 before, const Sdwa& sdwa) {
  const int bits = sdwa.destination < 4 ? 8 : 16;
  const int shift = sdwa.destination < 4 ? 8 * sdwa.destination : 16 * (sdwa.destination - 4);
  const u32 mask = ((1u << bits) - 1) << shift, placed = value << shift & mask;
  switch (sdwa.unused) {
    case Sdwa::Unused::preserve:
      return placed | (before & ~mask);
    case Sdwa::Unused::sign_extend: {
      const u32 above = static_cast<u32>(~((u64{1} << (shift + bits)) - 1));
      return placed | ((value >> (bits - 1) & 1) != 0 ? above : 0);
    }
    default:
      return placed;
  }
}

u16 half_of_constant(const Operand& operand) { return operand.is_real ? to_f16(operand.real) : static_cast<u16>(operand.bits); }

void read_pairs(Wave& w, const Instruction& i, int operand, int source, Lanes<u64>& out, u64& written, bool as_double) {
  const Operand& o = i.operand(operand);
  if (!o.is_vector()) {
    out.fill(as_double && o.is_constant() ? double_bits(o) : read_scalar64(w, o));
    return;
  }
  Lanes<u32> low, high;
  read_raw(w, o, 0, low);
  read_raw(w, o, 1, high);
  if (i.dpp.used && source == 0) {
    apply_dpp(w, i, low, written);
    apply_dpp(w, i, high, written);
  }
  for (int l = 0; l < kLanes; l++) out[l] = join(low[l], high[l]);
}

}  // namespace

void read_raw(Wave& w, const Operand& operand, int part, Lanes<u32>& out) {
  if (operand.is_vector())
    memcpy(out.data(), w.vector[operand.index + part], sizeof out);
  else
    out.fill(read_scalar(w, operand, part));
}

void read_lanes(Wave& w, const Instruction& i, int operand, int source, Lanes<u32>& out, u64& written) {
  const Operand& o = i.operand(operand);
  read_raw(w, o, 0, out);
  if (i.dpp.used && source == 0) apply_dpp(w, i, out, written);
  if (i.sdwa.used && source < 2)
    for (u32& value : out) value = select(value, i.sdwa.source[source], o.sign_extend);
}

void write_lanes(Wave& w, const Instruction& i, int operand, int part, const Lanes<u32>& values, u64 written) {
  const Operand& o = i.operand(operand);
  if (!o.is_vector()) throw Fault{Kind::unsupported, "a vector result in a scalar register"};
  LaneRegister& to = w.vector[o.index + part];
  written &= w.exec();
  if (i.sdwa.used && i.sdwa.destination != 6 && part == 0) {
    for (int l = 0; l < kLanes; l++)
      if (lane_in(written, l)) to[l] = place(values[l], to[l], i.sdwa);
  } else if (written == kAllLanes) {
    memcpy(to, values.data(), sizeof to);
  } else {
    for (int l = 0; l < kLanes; l++)
      if (lane_in(written, l)) to[l] = values[l];
  }
}

void read_half_lanes(Wave& w, const Instruction& i, int operand, int source, Lanes<u32>& out, u64& written) {
  const Operand& o = i.operand(operand);
  if (o.is_constant()) {
    out.fill(half_of_constant(o));
    return;
  }
  read_lanes(w, i, operand, source, out, written);
  const int shift = !i.sdwa.used && i.selects_high(source) ? 16 : 0;
  for (u32& value : out) value = value >> shift & 0xFFFF;
}

void read_half_float_lanes(Wave& w, const Instruction& i, int operand, int source, Lanes<u32>& out, u64& written) {
  const Operand& o = i.operand(operand);
  read_half_lanes(w, i, operand, source, out, written);
  const u32 kept = o.absolute ? 0x7FFF : 0xFFFF, flipped = o.negate ? 0x8000 : 0;
  for (u32& value : out) value = (value & kept) ^ flipped;
}

void write_half_lanes(Wave& w, const Instruction& i, int operand, const Lanes<u32>& values, u64 written) {
  const bool high = (i.op_sel & 8) != 0;
  if (i.sdwa.used || (!high && !i.has(kKeepsRest))) return write_lanes(w, i, operand, 0, values, written);
  const LaneRegister& before = w.vector[i.operand(operand).index];
  Lanes<u32> merged;
  for (int l = 0; l < kLanes; l++)
    merged[l] = high ? (before[l] & 0xFFFF) | values[l] << 16 : (before[l] & 0xFFFF0000) | (values[l] & 0xFFFF);
  write_lanes(w, i, operand, 0, merged, written);
}

void read_source(Wave& w, const Instruction& i, int operand, int source, Lanes<float>& out, u64& written) {
  const Operand& o = i.operand(operand);
  Lanes<u32> raw;
  read_lanes(w, i, operand, source, raw, written);
  const u32 kept = o.absolute ? 0x7FFFFFFF : ~0u, flipped = o.negate ? 0x80000000 : 0;
  for (int l = 0; l < kLanes; l++) out[l] = as_float((raw[l] & kept) ^ flipped);
  if (w.flushes_f32())
    for (float& value : out) value = flush(value);
}

void read_source(Wave& w, const Instruction& i, int operand, int source, Lanes<f16>& out, u64& written) {
  Lanes<u32> raw;
  read_half_float_lanes(w, i, operand, source, raw, written);
  for (int l = 0; l < kLanes; l++) out[l] = f16_as_double(raw[l]);
}

void read_source(Wave& w, const Instruction& i, int operand, int source, Lanes<u64>& out, u64& written) {
  read_pairs(w, i, operand, source, out, written, false);
}
void read_source(Wave& w, const Instruction& i, int operand, int source, Lanes<i64>& out, u64& written) {
  Lanes<u64> raw;
  read_pairs(w, i, operand, source, raw, written, false);
  for (int l = 0; l < kLanes; l++) out[l] = static_cast<i64>(raw[l]);
}
void read_source(Wave& w, const Instruction& i, int operand, int source, Lanes<double>& out, u64& written) {
  const Operand& o = i.operand(operand);
  Lanes<u64> raw;
  read_pairs(w, i, operand, source, raw, written, true);
  const u64 sign = u64{1} << 63, kept = o.absolute ? ~sign : ~u64{0}, flipped = o.negate ? sign : 0;
  for (int l = 0; l < kLanes; l++) out[l] = as_double((raw[l] & kept) ^ flipped);
}

float apply_output_modifier(const Wave& w, const Instruction& i, float value) {
  // The ISA documents: output modifiers are ignored where denormals are not flushed.
  if (i.output_modifier != 0 && w.f32_omod()) value *= i.output_modifier == 1 ? 2.0f : i.output_modifier == 2 ? 4.0f : 0.5f;
  if (w.flushes_f32()) value = flush(value);
  if (!i.clamp) return value;
  if (std::isnan(value)) return (w.mode & kDx10Clamp) != 0 ? 0.0f : value;
  return value < 0 ? 0.0f : value > 1 ? 1.0f : value;
}

double clamp_double(const Wave& w, const Instruction& i, double value) {
  if (!i.clamp) return value;
  if (std::isnan(value)) return (w.mode & kDx10Clamp) != 0 ? 0.0 : value;
  return value < 0 ? 0.0 : value > 1 ? 1.0 : value;
}

void write_result(Wave& w, const Instruction& i, const Lanes<float>& values, u64 written) {
  Lanes<u32> raw;
  if (i.output_modifier != 0 || i.clamp || w.flushes_f32()) {
    for (int l = 0; l < kLanes; l++) raw[l] = as_bits(apply_output_modifier(w, i, values[l]));
  } else {
    for (int l = 0; l < kLanes; l++) raw[l] = as_bits(values[l]);
  }
  write_lanes(w, i, 0, 0, raw, written);
}

void write_result(Wave& w, const Instruction& i, const Lanes<f16>& values, u64 written) {
  Lanes<u32> raw;
  for (int l = 0; l < kLanes; l++) raw[l] = to_f16(clamp_double(w, i, values[l]));
  write_half_lanes(w, i, 0, raw, written);
}

void write_result(Wave& w, const Instruction& i, const Lanes<u64>& values, u64 written) {
  Lanes<u32> part;
  for (int k = 0; k < 2; k++) {
    for (int l = 0; l < kLanes; l++) part[l] = static_cast<u32>(values[l] >> 32 * k);
    write_lanes(w, i, 0, k, part, written);
  }
}
void write_result(Wave& w, const Instruction& i, const Lanes<i64>& values, u64 written) {
  write_result(w, i, std::bit_cast<Lanes<u64>>(values), written);
}
void write_result(Wave& w, const Instruction& i, const Lanes<double>& values, u64 written) {
  Lanes<u64> raw;
  for (int l = 0; l < kLanes; l++) raw[l] = as_bits(clamp_double(w, i, values[l]));
  write_result(w, i, raw, written);
}

}  // namespace jaxator::emulator
