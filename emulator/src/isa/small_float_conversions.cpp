/// @file
/// Conversions to and from FP8 and BF8 without a scale: FNUZ on gfx942, OCP on gfx950, under the same names. Past the largest
/// number they give NaN or infinity, not saturation (MODE.FP16_OVFL is 0).
#include "emulator/src/isa/lanes.h"

namespace jaxator::emulator {
namespace {

enum class Small { fp8, bf8 };

/// `run` for the format that the architecture has under the name.
template <Small small, class Run> void with_format(const Wave& w, const Run& run) {
  if constexpr (small == Small::fp8) {
    if (is_gfx950(w))
      run.template operator()<numeric::e4m3>();
    else
      run.template operator()<numeric::e4m3fnuz>();
  } else {
    if (is_gfx950(w))
      run.template operator()<numeric::e5m2>();
    else
      run.template operator()<numeric::e5m2fnuz>();
  }
}

/// Two floats into the half of the destination that op_sel's last bit picks.
template <Small small> void pack_two(Wave& w, const Instruction& i) {
  u64 written = kAllLanes;
  Lanes<float> a, b;
  Lanes<u32> out;
  read_source(w, i, 1, 0, a, written);
  read_source(w, i, 2, 1, b, written);
  const LaneRegister& before = w.vector[i.operand(0).index];
  const int shift = (i.op_sel & 8) != 0 ? 16 : 0;
  with_format<small>(w, [&]<numeric::Format format>() {
    for (int l = 0; l < kLanes; l++) {
      const u32 pair = numeric::from_float<format>(a[l]) | u32{numeric::from_float<format>(b[l])} << 8;
      out[l] = (before[l] & ~(0xFFFFu << shift)) | pair << shift;
    }
  });
  write_lanes(w, i, 0, 0, out, written);
}

/// One float into the byte that op_sel's last two bits pick, rounded by random bits.
template <Small small> void stochastic(Wave& w, const Instruction& i) {
  u64 written = kAllLanes;
  Lanes<float> a;
  Lanes<u32> draw, out;
  read_source(w, i, 1, 0, a, written);
  read_source(w, i, 2, 1, draw, written);
  const LaneRegister& before = w.vector[i.operand(0).index];
  const int shift = 8 * (i.op_sel >> 2 & 3);
  with_format<small>(w, [&]<numeric::Format format>() {
    for (int l = 0; l < kLanes; l++) {
      const AddAndTruncate rounding{draw[l], 23 - format.mantissa_bits};
      const u32 byte = encode_as_hardware<format>(number_of_f32(as_bits(a[l])), rounding, numeric::Overflow::special);
      out[l] = (before[l] & ~(0xFFu << shift)) | byte << shift;
    }
  });
  write_lanes(w, i, 0, 0, out, written);
}

/// The byte or half that SDWA picks, the lowest without it.
template <Small small, int count> void unpack(Wave& w, const Instruction& i) {
  Lanes<u32> raw, out;
  read_raw(w, i.operand(1), 0, raw);
  const int selection = i.sdwa.used ? i.sdwa.source[0] : 6;
  const int shift = selection < 4 ? 8 * selection : selection < 6 ? 16 * (selection - 4) : 0;
  with_format<small>(w, [&]<numeric::Format format>() {
    for (int k = 0; k < count; k++) {
      for (int l = 0; l < kLanes; l++)
        out[l] = numeric::decode_table<format, numeric::f32>[static_cast<int>(raw[l] >> (shift + 8 * k) & 255)];
      write_lanes(w, i, 0, k, out, kAllLanes);
    }
  });
}

}  // namespace

void add_small_float_conversions(Table& t) {
  constexpr u32 into = kOpSel | kSourceModifiers | kKeepsRest;
  t.add("v_cvt_pk_fp8_f32", {pack_two<Small::fp8>, Class::vector_alu, into});
  t.add("v_cvt_pk_bf8_f32", {pack_two<Small::bf8>, Class::vector_alu, into});
  t.add("v_cvt_sr_fp8_f32", {stochastic<Small::fp8>, Class::vector_alu, into});
  t.add("v_cvt_sr_bf8_f32", {stochastic<Small::bf8>, Class::vector_alu, into});
  t.add("v_cvt_f32_fp8", {unpack<Small::fp8, 1>, Class::vector_alu});
  t.add("v_cvt_f32_bf8", {unpack<Small::bf8, 1>, Class::vector_alu});
  t.add("v_cvt_pk_f32_fp8", {unpack<Small::fp8, 2>, Class::vector_alu});
  t.add("v_cvt_pk_f32_bf8", {unpack<Small::bf8, 2>, Class::vector_alu});
}

}  // namespace jaxator::emulator
