/// @file
/// Packed arithmetic: two halves of a register, or two registers, each computed for itself. op_sel picks the source of the low
/// result, op_sel_hi that of the high one.
#include <algorithm>

#include "emulator/src/isa/float_functions.h"
#include "emulator/src/isa/half_functions.h"
#include "emulator/src/isa/lanes.h"

namespace jaxator::emulator {
namespace {

bool selects_high_for(const Instruction& i, int source, bool high_result) {
  return ((high_result ? i.op_sel_hi : i.op_sel) >> source & 1) != 0;
}
bool negates_for(const Instruction& i, int source, bool high_result) {
  return ((high_result ? i.neg_hi : i.neg_lo) >> source & 1) != 0;
}

// ---- halves ----------------------------------------------------------------------------------------------------------

void read_packed(Wave& w, const Instruction& i, int source, bool high_result, bool is_float, Lanes<u32>& out) {
  const Operand& operand = i.operand(source + 1);
  read_raw(w, operand, 0, out);
  // A constant stands in the low half, a fraction as half precision.
  if (operand.is_constant() && operand.is_real) out.fill(to_f16(operand.real));
  const int shift = selects_high_for(i, source, high_result) ? 16 : 0;
  const u32 flipped = is_float && negates_for(i, source, high_result) ? 0x8000 : 0;
  for (u32& value : out) value = (value >> shift & 0xFFFF) ^ flipped;
}

u16 result_bits(const Wave& w, const Instruction& i, f16 value) { return to_f16(clamp_double(w, i, value)); }
u16 result_bits(const Wave&, const Instruction&, u16 value) { return value; }
u16 result_bits(const Wave&, const Instruction&, i16 value) { return static_cast<u16>(value); }
template <class T> u16 result_bits(const Wave&, const Instruction& i, Exact<T> value) {
  return static_cast<u16>(i.clamp ? saturate<T>(value.value) : static_cast<T>(value.value));
}

template <class T> T half_as(u32 bits) {
  if constexpr (std::is_same_v<T, f16>)
    return f16_as_double(bits);
  else
    return static_cast<T>(bits);
}

template <class S> struct PackedSources;
template <class R, class C, class... A> struct PackedSources<R (C::*)(A...) const> {
  template <auto function> static void run(Wave& w, const Instruction& i) {
    constexpr bool is_float = (std::is_same_v<A, f16> || ...);
    Lanes<u32> out{}, in[sizeof...(A)];
    for (const bool high : {false, true}) {
      for (int s = 0; s < static_cast<int>(sizeof...(A)); s++) read_packed(w, i, s, high, is_float, in[s]);
      for (int l = 0; l < kLanes; l++) {
        const u16 half = [&]<size_t... s>(std::index_sequence<s...>) {
          return result_bits(w, i, function(half_as<A>(in[s][l])...));
        }(std::index_sequence_for<A...>());
        out[l] |= u32{half} << (high ? 16 : 0);
      }
    }
    write_lanes(w, i, 0, 0, out, kAllLanes);
  }
};

/// `function` in both halves of each lane.
template <auto function> Entry halves(u32 traits = 0) {
  using Sources = PackedSources<decltype(&decltype(function)::operator())>;
  return {Sources::template run<function>, Class::vector_alu, traits | kOpSel | kClamp};
}

void add_integer_halves(Table& t) {
  using U = Exact<u16>;
  using I = Exact<i16>;
  t.add("v_pk_add_u16", halves<[](u16 a, u16 b) { return U{i64{a} + b}; }>());
  t.add("v_pk_sub_u16", halves<[](u16 a, u16 b) { return U{i64{a} - b}; }>());
  t.add("v_pk_add_i16", halves<[](i16 a, i16 b) { return I{i64{a} + b}; }>());
  t.add("v_pk_sub_i16", halves<[](i16 a, i16 b) { return I{i64{a} - b}; }>());
  t.add("v_pk_mad_u16", halves<[](u16 a, u16 b, u16 c) { return U{i64{a} * b + c}; }>());
  t.add("v_pk_mad_i16", halves<[](i16 a, i16 b, i16 c) { return I{i64{a} * b + c}; }>());
  t.add("v_pk_mul_lo_u16", halves<[](u16 a, u16 b) { return static_cast<u16>(u32{a} * b); }>());
  t.add("v_pk_min_u16", halves<[](u16 a, u16 b) { return std::min(a, b); }>());
  t.add("v_pk_max_u16", halves<[](u16 a, u16 b) { return std::max(a, b); }>());
  t.add("v_pk_min_i16", halves<[](i16 a, i16 b) { return std::min(a, b); }>());
  t.add("v_pk_max_i16", halves<[](i16 a, i16 b) { return std::max(a, b); }>());
  t.add("v_pk_lshlrev_b16", halves<[](u16 a, u16 b) { return static_cast<u16>(b << (a & 15)); }>());
  t.add("v_pk_lshrrev_b16", halves<[](u16 a, u16 b) { return static_cast<u16>(b >> (a & 15)); }>());
  t.add("v_pk_ashrrev_i16", halves<[](u16 a, i16 b) { return static_cast<i16>(b >> (a & 15)); }>());
}

void add_float_halves(Table& t) {
  t.add("v_pk_add_f16", halves<[](f16 a, f16 b) { return f16(a + b); }>());
  t.add("v_pk_mul_f16", halves<[](f16 a, f16 b) { return f16(a * b); }>());
  constexpr auto fma = [](f16 a, f16 b, f16 c) { return f16(multiply_add_once(a, b, c)); };
  t.add("v_pk_fma_f16", halves<fma>());
  t.add("v_pk_fmac_f16", halves<fma>(kAccumulates));
  t.add("v_pk_min_f16", halves<[](f16 a, f16 b) { return f16(minimum_number<double>(a, b)); }>());
  t.add("v_pk_max_f16", halves<[](f16 a, f16 b) { return f16(maximum_number<double>(a, b)); }>());
  t.add("v_pk_minimum3_f16", halves<[](f16 a, f16 b, f16 c) { return f16(minimum(minimum<double>(a, b), c.value)); }>());
  t.add("v_pk_maximum3_f16", halves<[](f16 a, f16 b, f16 c) { return f16(maximum(maximum<double>(a, b), c.value)); }>());
}

// ---- registers -------------------------------------------------------------------------------------------------------

void read_word(Wave& w, const Instruction& i, int source, bool high_result, Lanes<u32>& out) {
  const Operand& operand = i.operand(source + 1);
  read_raw(w, operand, !operand.is_constant() && selects_high_for(i, source, high_result) ? 1 : 0, out);
}

template <auto function, int sources> void packed_words(Wave& w, const Instruction& i) {
  Lanes<u32> in[sources], out[2];
  for (const bool high : {false, true}) {
    for (int s = 0; s < sources; s++) {
      read_word(w, i, s, high, in[s]);
      if (negates_for(i, s, high))
        for (u32& value : in[s]) value ^= 0x80000000;
      if (w.flushes_f32())
        for (u32& value : in[s]) value = as_bits(flush(as_float(value)));
    }
    for (int l = 0; l < kLanes; l++) {
      float result;
      if constexpr (sources == 2)
        result = function(as_float(in[0][l]), as_float(in[1][l]));
      else
        result = function(as_float(in[0][l]), as_float(in[1][l]), as_float(in[2][l]));
      out[high][l] = as_bits(apply_output_modifier(w, i, result));
    }
  }
  for (int part = 0; part < 2; part++) write_lanes(w, i, 0, part, out[part], kAllLanes);
}

/// One word of each source.
void move_words(Wave& w, const Instruction& i) {
  Lanes<u32> low, high;
  read_word(w, i, 0, false, low);
  read_word(w, i, 1, false, high);
  write_lanes(w, i, 0, 0, low, kAllLanes);
  write_lanes(w, i, 0, 1, high, kAllLanes);
}

}  // namespace

void add_vector_packed(Table& t) {
  add_integer_halves(t);
  add_float_halves(t);
  constexpr auto add = [](float a, float b) { return a + b; };
  constexpr auto multiply = [](float a, float b) { return a * b; };
  constexpr auto fma = [](float a, float b, float c) { return std::fma(a, b, c); };
  const auto words = [&](const char* name, Function execute) { t.add(name, {execute, Class::vector_alu, kOpSel | kClamp}); };
  words("v_pk_add_f32", packed_words<add, 2>);
  words("v_pk_mul_f32", packed_words<multiply, 2>);
  words("v_pk_fma_f32", packed_words<fma, 3>);
  words("v_pk_mov_b32", move_words);
}

}  // namespace jaxator::emulator
