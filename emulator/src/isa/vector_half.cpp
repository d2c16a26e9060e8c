/// @file
/// Vector arithmetic in half precision: computed in double and rounded once.
#include "emulator/src/isa/float_functions.h"
#include "emulator/src/isa/half_functions.h"
#include "emulator/src/isa/lanes.h"

namespace jaxator::emulator {
namespace {

void add_arithmetic(Table& t) {
  t.add("v_add_f16", lanes<[](f16 a, f16 b) { return f16(a + b); }>());
  t.add("v_sub_f16", lanes<[](f16 a, f16 b) { return f16(a - b); }>());
  t.add("v_subrev_f16", lanes<[](f16 a, f16 b) { return f16(b - a); }>());
  t.add("v_mul_f16", lanes<[](f16 a, f16 b) { return f16(a * b); }>());
  constexpr auto fma = [](f16 a, f16 b, f16 c) { return f16(multiply_add_once(a, b, c)); };
  constexpr auto fma_after_rounding = [](f16 a, f16 b, f16 c) { return f16(double{from_f16(to_f16(a * b))} + c); };
  t.add("v_fma_f16", lanes<fma>(kKeepsRest));
  t.add("v_fma_legacy_f16", lanes<fma>());
  t.add("v_mad_f16", lanes<fma_after_rounding>(kKeepsRest));
  t.add("v_mad_legacy_f16", lanes<fma_after_rounding>());
  t.add("v_mac_f16", lanes<fma_after_rounding>(kAccumulates));
  t.add("v_madmk_f16", lanes<fma_after_rounding>());
  t.add("v_madak_f16", lanes<fma_after_rounding>());
  t.add("v_ldexp_f16", lanes<[](f16 a, i16 b) { return f16(std::ldexp(a, b)); }>());
}

double least(double a, double b) { return minimum_number(a, b); }
double most(double a, double b) { return maximum_number(a, b); }

void add_order(Table& t) {
  t.add("v_min_f16", lanes<[](f16 a, f16 b) { return f16(least(a, b)); }>());
  t.add("v_max_f16", lanes<[](f16 a, f16 b) { return f16(most(a, b)); }>());
  t.add("v_min3_f16", lanes<[](f16 a, f16 b, f16 c) { return f16(least(least(a, b), c)); }>(kKeepsRest));
  t.add("v_max3_f16", lanes<[](f16 a, f16 b, f16 c) { return f16(most(most(a, b), c)); }>(kKeepsRest));
  t.add("v_med3_f16", lanes<[](f16 a, f16 b, f16 c) { return f16(median_number<double>(a, b, c)); }>(kKeepsRest));
}

void add_rounding(Table& t) {
  t.add("v_trunc_f16", lanes<[](f16 a) { return f16(std::trunc(a)); }>());
  t.add("v_ceil_f16", lanes<[](f16 a) { return f16(std::ceil(a)); }>());
  t.add("v_floor_f16", lanes<[](f16 a) { return f16(std::floor(a)); }>());
  t.add("v_rndne_f16", lanes<[](f16 a) { return f16(std::nearbyint(a)); }>());
  t.add("v_fract_f16", lanes<[](f16 a) { return f16(fraction_of<double>(a, 0x1.ffcp-1)); }>());
  t.add("v_frexp_mant_f16", lanes<[](f16 a) { return f16(mantissa_of<double>(a)); }>());
  t.add("v_frexp_exp_i16_f16", lanes<[](f16 a) { return static_cast<i16>(exponent_of<double>(a)); }>());
}

void add_transcendental(Table& t) {
  const auto add = [&](const char* name, Entry entry) {
    entry.traits |= kTranscendental;
    t.add(name, entry);
  };
  add("v_rcp_f16", lanes<[](f16 a) { return f16(1.0 / a); }>());
  add("v_rsq_f16", lanes<[](f16 a) { return f16(1.0 / std::sqrt(a)); }>());
  add("v_sqrt_f16", lanes<[](f16 a) { return f16(std::sqrt(a)); }>());
  add("v_exp_f16", lanes<[](f16 a) { return f16(std::exp2(a)); }>());
  add("v_log_f16", lanes<[](f16 a) { return f16(std::log2(a)); }>());
  add("v_sin_f16", lanes<[](f16 a) { return f16(sine_of_revolutions(a)); }>());
  add("v_cos_f16", lanes<[](f16 a) { return f16(cosine_of_revolutions(a)); }>());
}

/// Both halves side by side. Source modifiers act on bits.
void pack(Wave& w, const Instruction& i) {
  u64 written = kAllLanes;
  Lanes<u32> low, high, out;
  read_half_float_lanes(w, i, 1, 0, low, written);
  read_half_float_lanes(w, i, 2, 1, high, written);
  for (int l = 0; l < kLanes; l++) out[l] = low[l] | high[l] << 16;
  write_lanes(w, i, 0, 0, out, written);
}

// ---- single precision with sources of either kind --------------------------------------------------------------------

/// Where op_sel_hi is set the source is half precision, op_sel says which half. neg_hi stands for an absolute value.
void read_mixed(Wave& w, const Instruction& i, int source, Lanes<float>& out) {
  Lanes<u32> raw;
  const Operand& operand = i.operand(source + 1);
  const bool is_half = (i.op_sel_hi >> source & 1) != 0;
  read_raw(w, operand, 0, raw);
  for (int l = 0; l < kLanes; l++) {
    if (is_half && operand.is_constant())
      out[l] = from_f16(operand.is_real ? to_f16(operand.real) : operand.bits);
    else if (is_half)
      out[l] = from_f16(i.selects_high(source) ? raw[l] >> 16 : raw[l] & 0xFFFF);
    else
      out[l] = as_float(raw[l]);
    if ((i.neg_hi >> source & 1) != 0) out[l] = std::fabs(out[l]);
    if ((i.neg_lo >> source & 1) != 0) out[l] = -out[l];
  }
}

enum class Mixed { single, low, high };

template <Mixed result> void multiply_add_mixed(Wave& w, const Instruction& i) {
  Lanes<float> a, b, c;
  read_mixed(w, i, 0, a);
  read_mixed(w, i, 1, b);
  read_mixed(w, i, 2, c);
  Lanes<u32> out;
  const LaneRegister& before = w.vector[i.operand(0).index];
  for (int l = 0; l < kLanes; l++) {
    const float sum = apply_output_modifier(w, i, std::fma(a[l], b[l], c[l]));
    if constexpr (result == Mixed::single)
      out[l] = as_bits(sum);
    else if constexpr (result == Mixed::low)
      out[l] = (before[l] & 0xFFFF0000) | to_f16(sum);
    else
      out[l] = (before[l] & 0xFFFF) | u32{to_f16(sum)} << 16;
  }
  write_lanes(w, i, 0, 0, out, kAllLanes);
}

}  // namespace

void add_vector_half(Table& t) {
  add_arithmetic(t);
  add_order(t);
  add_rounding(t);
  add_transcendental(t);
  t.add("v_pack_b32_f16", {pack, Class::vector_alu, kSourceModifiers | kOpSel});
  constexpr u32 traits = kSourceModifiers | kOpSel | kClamp;
  t.add("v_fma_mix_f32", {multiply_add_mixed<Mixed::single>, Class::vector_alu, traits});
  t.add("v_fma_mixlo_f16", {multiply_add_mixed<Mixed::low>, Class::vector_alu, traits | kKeepsRest});
  t.add("v_fma_mixhi_f16", {multiply_add_mixed<Mixed::high>, Class::vector_alu, traits | kKeepsRest});
}

}  // namespace jaxator::emulator
