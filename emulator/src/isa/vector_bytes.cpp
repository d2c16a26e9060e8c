/// @file
/// Vector instructions on the bytes of a register.
#include "emulator/src/isa/lanes.h"

namespace jaxator::emulator {
namespace {

constexpr u32 byte(u64 a, int k) { return static_cast<u32>(a >> 8 * k & 255); }
constexpr u32 distance(u32 a, u32 b) { return a > b ? a - b : b - a; }

constexpr u32 sum_of_distances(u32 a, u32 b, u32 c) {
  for (int k = 0; k < 4; k++) c += distance(byte(a, k), byte(b, k));
  return c;
}
/// Bytes of b that are 0 do not count.
constexpr u32 masked_sum_of_distances(u32 a, u32 b, u32 c) {
  for (int k = 0; k < 4; k++) c += byte(b, k) == 0 ? 0 : distance(byte(a, k), byte(b, k));
  return c;
}

/// Four sums, each over a window of a that begins one byte later, in 16 bits.
template <auto sum> constexpr u64 four_windows(u64 a, u32 b, u64 c) {
  u64 out = 0;
  for (int k = 0; k < 4; k++)
    out |= u64{static_cast<u16>(sum(static_cast<u32>(a >> 8 * k), b, static_cast<u32>(c >> 16 * k & 0xFFFF)))} << 16 * k;
  return out;
}

/// The same in 32 bits: the sums take four registers.
void four_wide_windows(Wave& w, const Instruction& i) {
  u64 written = kAllLanes;
  Lanes<u64> a;
  Lanes<u32> b, c[4];
  read_source(w, i, 1, 0, a, written);
  read_source(w, i, 2, 1, b, written);
  for (int k = 0; k < 4; k++) read_raw(w, i.operand(3), k, c[k]);
  for (int k = 0; k < 4; k++) {
    for (int l = 0; l < kLanes; l++) c[k][l] = masked_sum_of_distances(static_cast<u32>(a[l] >> 8 * k), b[l], c[k][l]);
    write_lanes(w, i, 0, k, c[k], written);
  }
}

/// Each byte of the selector picks a byte of {a, b}, a sign, 0 or 255.
constexpr u32 permute(u32 a, u32 b, u32 selector) {
  const u64 data = join(b, a);
  u32 out = 0;
  for (int k = 0; k < 4; k++) {
    const u32 which = byte(selector, k);
    const u32 picked = which >= 13   ? 255
                       : which == 12 ? 0
                       : which >= 8  ? ((data >> (16 * (which - 8) + 15) & 1) != 0 ? 255 : 0)
                                     : byte(data, static_cast<int>(which));
    out |= picked << 8 * k;
  }
  return out;
}

constexpr u32 average(u32 a, u32 b, u32 rounding) {
  u32 out = 0;
  for (int k = 0; k < 4; k++) out |= (byte(a, k) + byte(b, k) + (rounding >> 8 * k & 1)) >> 1 << 8 * k;
  return out;
}

constexpr u16 saturate_halves(u32 a) {
  return static_cast<u16>(saturate<u8>(static_cast<i16>(a)) | saturate<u8>(static_cast<i16>(a >> 16)) << 8);
}

template <class T> constexpr u16 shift_and_pack(i32 a, i32 b, u32 shift) {
  const u8 low = static_cast<u8>(saturate<T>(a >> (shift & 31))), high = static_cast<u8>(saturate<T>(b >> (shift & 31)));
  return static_cast<u16>(low | high << 8);
}

}  // namespace

void add_vector_bytes(Table& t) {
  t.add("v_perm_b32", lanes<[](u32 a, u32 b, u32 c) { return permute(a, b, c); }>());
  t.add("v_lerp_u8", lanes<[](u32 a, u32 b, u32 c) { return average(a, b, c); }>());
  t.add("v_sad_u8", lanes<[](u32 a, u32 b, u32 c) { return sum_of_distances(a, b, c); }>());
  t.add("v_sad_hi_u8", lanes<[](u32 a, u32 b, u32 c) { return (sum_of_distances(a, b, 0) << 16) + c; }>());
  t.add("v_sad_u16",
        lanes<[](u32 a, u32 b, u32 c) { return c + distance(a & 0xFFFF, b & 0xFFFF) + distance(a >> 16, b >> 16); }>());
  t.add("v_sad_u32", lanes<[](u32 a, u32 b, u32 c) { return distance(a, b) + c; }>());
  t.add("v_msad_u8", lanes<[](u32 a, u32 b, u32 c) { return masked_sum_of_distances(a, b, c); }>());
  t.add("v_qsad_pk_u16_u8", lanes<[](u64 a, u32 b, u64 c) { return four_windows<sum_of_distances>(a, b, c); }>());
  t.add("v_mqsad_pk_u16_u8", lanes<[](u64 a, u32 b, u64 c) { return four_windows<masked_sum_of_distances>(a, b, c); }>());
  t.add("v_mqsad_u32_u8", {four_wide_windows, Class::vector_alu});
  t.add("v_sat_pk_u8_i16", lanes<[](u32 a) { return saturate_halves(a); }>());
  t.add("v_ashr_pk_i8_i32", lanes<[](i32 a, i32 b, u32 c) { return shift_and_pack<i8>(a, b, c); }>(kKeepsRest));
  t.add("v_ashr_pk_u8_i32", lanes<[](i32 a, i32 b, u32 c) { return shift_and_pack<u8>(a, b, c); }>(kKeepsRest));
  constexpr auto prng = [](u32 a) { return a << 1 ^ (a >> 31 != 0 ? 197u : 0u); };
  t.add("v_prng_b32", lanes<prng>());
}

}  // namespace jaxator::emulator
