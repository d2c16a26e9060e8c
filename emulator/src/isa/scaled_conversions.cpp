/// @file
/// gfx950's conversions between MX element formats and wider floats, with a scale that is the exponent of a float. Into elements
/// they divide by it and saturate; out of elements they multiply and give infinity past the largest number. A scale with the
/// exponent 255 is NaN. Where a random number serves several elements, each takes the next of v_prng_b32.
#include "emulator/src/isa/lanes.h"

namespace jaxator::emulator {
namespace {

using numeric::Format;

constexpr u8 scale_of(u32 float_bits) { return static_cast<u8>(float_bits >> 23); }
constexpr u32 next_random(u32 a) { return a << 1 ^ (a >> 31 != 0 ? 197u : 0u); }

template <Format wide, Format small, class Rounding> u32 to_element(u32 bits, u8 scale, Rounding rounding) {
  numeric::Number x = numeric::decode<wide>(static_cast<numeric::Code<wide>>(bits));
  if (scale == numeric::kScaleNan) x.kind = numeric::Number::Kind::nan;
  x.exponent -= scale - numeric::kScaleBias;
  return encode_as_hardware<small>(x, rounding, numeric::Overflow::saturate);
}

template <Format small, Format wide> u32 from_element(u32 code, u8 scale) {
  numeric::Number x = numeric::decode<small>(static_cast<numeric::Code<small>>(code));
  if (scale == numeric::kScaleNan) x.kind = numeric::Number::Kind::nan;
  x.exponent += scale - numeric::kScaleBias;
  return numeric::encode<wide>(x, numeric::NearestEven{}, numeric::Overflow::special);
}

template <Format wide, Format small> AddAndTruncate by_random(u32 draw) {
  return {draw, wide.mantissa_bits - small.mantissa_bits};
}

/// Elements of `bits` bits in a row of registers, of one lane.
class Elements {
 public:
  Elements(int bits, u32* words) : bits_(bits), words_(words) {}
  u32 get(int k) const {
    const int at = k * bits_, word = at / 32, shift = at % 32;
    const u64 two = shift + bits_ > 32 ? join(words_[word], words_[word + 1]) : words_[word];
    return static_cast<u32>(two >> shift & ((u64{1} << bits_) - 1));
  }
  /// The words must be 0 there.
  void set(int k, u32 value) {
    const int at = k * bits_, word = at / 32, shift = at % 32;
    words_[word] |= value << shift;
    if (shift + bits_ > 32) words_[word + 1] |= value >> (32 - shift);
  }

 private:
  int bits_;
  u32* words_;
};

inline constexpr int kMostWords = 32;
using Words = u32[kMostWords];

void read_words(Wave& w, const Operand& operand, int lane, Words& out) {
  for (int k = 0; k < operand.registers; k++) out[k] = w.vector[operand.index + k][lane];
}

Lanes<u32> read_all(Wave& w, const Operand& operand) {
  Lanes<u32> out;
  read_raw(w, operand, 0, out);
  return out;
}

// ---- one or two elements, in a part of a register --------------------------------------------------------------------

/// Where op_sel puts `bits` bits: in a byte by two of its bits, in a half by the last one.
int destination_shift(const Instruction& i, int bits) { return bits == 8 ? 8 * (i.op_sel >> 2 & 3) : 16 * (i.op_sel >> 3 & 1); }
int source_shift(const Instruction& i, int bits) {
  return bits == 8 ? 8 * (i.op_sel & 1) + 16 * (i.op_sel >> 1 & 1) : 16 * (i.op_sel & 1);
}

/// Two wide values to two elements. Single precision has them in two operands or, with a random number, in two registers.
template <Format wide, Format small, bool stochastic> void pack_pair(Wave& w, const Instruction& i) {
  constexpr int bits = 2 * small.bits();
  constexpr bool two_operands = wide.bits() == 32 && !stochastic;
  const Operand& source = i.operand(1);
  Lanes<u32> low, high, out;
  read_raw(w, source, 0, low);
  if constexpr (two_operands)
    read_raw(w, i.operand(2), 0, high);
  else if constexpr (wide.bits() == 32)
    read_raw(w, source, 1, high);
  const Lanes<u32> draws = stochastic ? read_all(w, i.operand(2)) : Lanes<u32>{};
  const Lanes<u32> scales = read_all(w, i.operand(two_operands || stochastic ? 3 : 2));
  const int shift = destination_shift(i, bits);
  const u32 mask = ((1u << bits) - 1) << shift;
  const LaneRegister& before = w.vector[i.operand(0).index];
  for (int l = 0; l < kLanes; l++) {
    const u32 first = wide.bits() == 32 ? low[l] : low[l] & 0xFFFF, second = wide.bits() == 32 ? high[l] : low[l] >> 16;
    const u8 scale = scale_of(scales[l]);
    u32 pair;
    if constexpr (stochastic)
      pair = to_element<wide, small>(first, scale, by_random<wide, small>(draws[l])) |
             to_element<wide, small>(second, scale, by_random<wide, small>(next_random(draws[l]))) << small.bits();
    else
      pair = to_element<wide, small>(first, scale, numeric::NearestEven{}) |
             to_element<wide, small>(second, scale, numeric::NearestEven{}) << small.bits();
    out[l] = (before[l] & ~mask) | pair << shift;
  }
  write_lanes(w, i, 0, 0, out, kAllLanes);
}

/// One wide value to a byte by a random number.
template <Format wide, Format small> void pack_one(Wave& w, const Instruction& i) {
  Lanes<u32> out;
  const Lanes<u32> source = read_all(w, i.operand(1)), draws = read_all(w, i.operand(2)), scales = read_all(w, i.operand(3));
  const int shift = destination_shift(i, 8), half = wide.bits() == 16 && i.selects_high(0) ? 16 : 0;
  const LaneRegister& before = w.vector[i.operand(0).index];
  for (int l = 0; l < kLanes; l++) {
    const u32 code = to_element<wide, small>(source[l] >> half, scale_of(scales[l]), by_random<wide, small>(draws[l]));
    out[l] = (before[l] & ~(0xFFu << shift)) | code << shift;
  }
  write_lanes(w, i, 0, 0, out, kAllLanes);
}

template <Format small, Format wide> void unpack_pair(Wave& w, const Instruction& i) {
  Lanes<u32> low, high;
  const Lanes<u32> source = read_all(w, i.operand(1)), scales = read_all(w, i.operand(2));
  const int shift = source_shift(i, 2 * small.bits());
  const u32 mask = (1u << small.bits()) - 1;
  for (int l = 0; l < kLanes; l++) {
    const u32 codes = source[l] >> shift;
    low[l] = from_element<small, wide>(codes & mask, scale_of(scales[l]));
    high[l] = from_element<small, wide>(codes >> small.bits() & mask, scale_of(scales[l]));
    if (wide.bits() == 16) low[l] |= high[l] << 16;
  }
  write_lanes(w, i, 0, 0, low, kAllLanes);
  if (wide.bits() == 32) write_lanes(w, i, 0, 1, high, kAllLanes);
}

template <Format small, Format wide> void unpack_one(Wave& w, const Instruction& i) {
  Lanes<u32> out;
  const Lanes<u32> source = read_all(w, i.operand(1)), scales = read_all(w, i.operand(2));
  const int shift = source_shift(i, 8);
  for (int l = 0; l < kLanes; l++) out[l] = from_element<small, wide>(source[l] >> shift & 255, scale_of(scales[l]));
  if (wide.bits() == 32)
    write_lanes(w, i, 0, 0, out, kAllLanes);
  else
    write_half_lanes(w, i, 0, out, kAllLanes);
}

// ---- 32 elements, in rows of registers -------------------------------------------------------------------------------

template <Format wide, Format small, bool stochastic> void pack_row(Wave& w, const Instruction& i) {
  const Lanes<u32> draws = stochastic ? read_all(w, i.operand(2)) : Lanes<u32>{};
  const Lanes<u32> scales = read_all(w, i.operand(stochastic ? 3 : 2));
  const u64 exec = w.exec();
  for (int l = 0; l < kLanes; l++) {
    if (!lane_in(exec, l)) continue;
    Words from{}, to{};
    read_words(w, i.operand(1), l, from);
    const Elements source(wide.bits(), from);
    Elements elements(small.bits(), to);
    u32 draw = draws[l];
    for (int k = 0; k < 32; k++) {
      if constexpr (stochastic)
        elements.set(k, to_element<wide, small>(source.get(k), scale_of(scales[l]), by_random<wide, small>(draw)));
      else
        elements.set(k, to_element<wide, small>(source.get(k), scale_of(scales[l]), numeric::NearestEven{}));
      draw = next_random(draw);
    }
    for (int k = 0; k < i.operand(0).registers; k++) w.vector[i.operand(0).index + k][l] = to[k];
  }
}

/// Two rows of 16 floats, interleaved.
template <Format small> void pack_two_rows(Wave& w, const Instruction& i) {
  const Lanes<u32> scales = read_all(w, i.operand(3));
  const u64 exec = w.exec();
  for (int l = 0; l < kLanes; l++) {
    if (!lane_in(exec, l)) continue;
    Words even{}, odd{}, to{};
    read_words(w, i.operand(1), l, even);
    read_words(w, i.operand(2), l, odd);
    Elements elements(small.bits(), to);
    for (int k = 0; k < 32; k++)
      elements.set(
          k, to_element<numeric::f32, small>((k % 2 == 0 ? even : odd)[k / 2], scale_of(scales[l]), numeric::NearestEven{}));
    for (int k = 0; k < i.operand(0).registers; k++) w.vector[i.operand(0).index + k][l] = to[k];
  }
}

template <Format small, Format wide> void unpack_row(Wave& w, const Instruction& i) {
  const Lanes<u32> scales = read_all(w, i.operand(2));
  const u64 exec = w.exec();
  for (int l = 0; l < kLanes; l++) {
    if (!lane_in(exec, l)) continue;
    Words from{}, to{};
    read_words(w, i.operand(1), l, from);
    const Elements source(small.bits(), from);
    Elements values(wide.bits(), to);
    for (int k = 0; k < 32; k++) values.set(k, from_element<small, wide>(source.get(k), scale_of(scales[l])));
    for (int k = 0; k < i.operand(0).registers; k++) w.vector[i.operand(0).index + k][l] = to[k];
  }
}

// ---- names -----------------------------------------------------------------------------------------------------------

constexpr u32 kInto = kOpSel | kKeepsRest;

template <Format wide> void add_wide(Table& t, const std::string& name) {
  using namespace numeric;
  const auto add = [&](const std::string& rest, Function execute, u32 traits) {
    t.add("v_cvt_scalef32_" + rest, {execute, Class::vector_alu, traits});
  };
  add("pk_fp8_" + name, pack_pair<wide, e4m3, false>, kInto);
  add("pk_bf8_" + name, pack_pair<wide, e5m2, false>, kInto);
  add("pk_fp4_" + name, pack_pair<wide, e2m1, false>, kInto);
  add("sr_pk_fp4_" + name, pack_pair<wide, e2m1, true>, kInto);
  add("sr_fp8_" + name, pack_one<wide, e4m3>, kInto);
  add("sr_bf8_" + name, pack_one<wide, e5m2>, kInto);
  add("pk_" + name + "_fp8", unpack_pair<e4m3, wide>, kOpSel);
  add("pk_" + name + "_bf8", unpack_pair<e5m2, wide>, kOpSel);
  add("pk_" + name + "_fp4", unpack_pair<e2m1, wide>, kOpSel);
  add("sr_pk32_fp6_" + name, pack_row<wide, kE2m3, true>, 0);
  add("sr_pk32_bf6_" + name, pack_row<wide, kE3m2, true>, 0);
  add("pk32_" + name + "_fp6", unpack_row<kE2m3, wide>, 0);
  add("pk32_" + name + "_bf6", unpack_row<kE3m2, wide>, 0);
  if constexpr (wide.bits() == 16) {
    add("pk32_fp6_" + name, pack_row<wide, kE2m3, false>, 0);
    add("pk32_bf6_" + name, pack_row<wide, kE3m2, false>, 0);
  } else {
    add("2xpk16_fp6_f32", pack_two_rows<kE2m3>, 0);
    add("2xpk16_bf6_f32", pack_two_rows<kE3m2>, 0);
  }
}

}  // namespace

void add_scaled_conversions(Table& t) {
  add_wide<numeric::f32>(t, "f32");
  add_wide<numeric::f16>(t, "f16");
  add_wide<numeric::bf16>(t, "bf16");
  const auto one = [&](const char* name, Function execute, u32 traits) { t.add(name, {execute, Class::vector_alu, traits}); };
  one("v_cvt_scalef32_f32_fp8", unpack_one<numeric::e4m3, numeric::f32>, kOpSel);
  one("v_cvt_scalef32_f32_bf8", unpack_one<numeric::e5m2, numeric::f32>, kOpSel);
  one("v_cvt_scalef32_f16_fp8", unpack_one<numeric::e4m3, numeric::f16>, kInto);
  one("v_cvt_scalef32_f16_bf8", unpack_one<numeric::e5m2, numeric::f16>, kInto);
}

}  // namespace jaxator::emulator
