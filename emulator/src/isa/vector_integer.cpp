/// @file
/// Vector integer arithmetic and logic of 16, 32 and 64 bits.
#include <algorithm>

#include "emulator/src/isa/lanes.h"

namespace jaxator::emulator {
namespace {

constexpr u32 low24(u32 a) { return a & 0xFFFFFF; }
constexpr i64 signed24(u32 a) { return sign_extend(a, 24); }

template <class T> constexpr T median(T a, T b, T c) { return std::max(std::min(a, b), std::min(std::max(a, b), c)); }

/// `count` bits of a from `offset` on.
constexpr u32 extract(u32 a, u32 offset, u32 count) {
  offset &= 31, count &= 31;
  return count == 0 ? 0 : a >> offset & ((1u << count) - 1);
}
/// The same as a signed number. Bits past the 31st repeat it.
constexpr u32 extract_signed(u32 a, u32 offset, u32 count) {
  offset &= 31, count &= 31;
  return count == 0 ? 0 : static_cast<u32>(sign_extend(static_cast<u32>(static_cast<i32>(a) >> offset), static_cast<int>(count)));
}

constexpr i32 first_bit_high(u32 a) { return a != 0 ? std::countl_zero(a) : -1; }
/// Where the bits first differ from the sign.
constexpr i32 first_bit_signed(u32 a) {
  const u32 differs = static_cast<i32>(a) < 0 ? ~a : a;
  return differs != 0 ? std::countl_zero(differs) : -1;
}
constexpr i32 first_bit_low(u32 a) { return a != 0 ? std::countr_zero(a) : -1; }

constexpr u32 reverse(u32 a) {
  u32 out = 0;
  for (int k = 0; k < 32; k++) out |= (a >> k & 1) << (31 - k);
  return out;
}

/// Any function of three bits: bit 4a + 2b + c of the table.
template <class T, int bits> void bit_operation(Wave& w, const Instruction& i) {
  u64 written = kAllLanes;
  Lanes<T> a, b, c, out;
  read_source(w, i, 1, 0, a, written);
  read_source(w, i, 2, 1, b, written);
  read_source(w, i, 3, 2, c, written);
  for (int l = 0; l < kLanes; l++) {
    u32 result = 0;
    for (u32 k = 0; k < 8; k++)
      if ((i.bitop3 >> k & 1) != 0)
        result |= ((k & 4) != 0 ? a[l] : ~u32{a[l]}) & ((k & 2) != 0 ? b[l] : ~u32{b[l]}) & ((k & 1) != 0 ? c[l] : ~u32{c[l]});
    out[l] = static_cast<T>(result);
  }
  write_result(w, i, out, written);
}

void add_32_bit_arithmetic(Table& t) {
  using U = Exact<u32>;
  using I = Exact<i32>;
  t.add("v_add_u32", lanes<[](u32 a, u32 b) { return U{i64{a} + b}; }>());
  t.add("v_sub_u32", lanes<[](u32 a, u32 b) { return U{i64{a} - b}; }>());
  t.add("v_subrev_u32", lanes<[](u32 a, u32 b) { return U{i64{b} - a}; }>());
  t.add("v_add_i32", lanes<[](i32 a, i32 b) { return I{i64{a} + b}; }>());
  t.add("v_sub_i32", lanes<[](i32 a, i32 b) { return I{i64{a} - b}; }>());
  t.add("v_add3_u32", lanes<[](u32 a, u32 b, u32 c) { return a + b + c; }>());
  t.add("v_lshl_add_u32", lanes<[](u32 a, u32 b, u32 c) { return (a << (b & 31)) + c; }>());
  t.add("v_add_lshl_u32", lanes<[](u32 a, u32 b, u32 c) { return (a + b) << (c & 31); }>());
  t.add("v_xad_u32", lanes<[](u32 a, u32 b, u32 c) { return (a ^ b) + c; }>());
  t.add("v_mul_lo_u32", lanes<[](u32 a, u32 b) { return a * b; }>());
  t.add("v_mul_hi_u32", lanes<[](u32 a, u32 b) { return static_cast<u32>(u64{a} * b >> 32); }>());
  t.add("v_mul_hi_i32", lanes<[](i32 a, i32 b) { return static_cast<i32>(i64{a} * b >> 32); }>());
  t.add("v_mul_u32_u24", lanes<[](u32 a, u32 b) { return static_cast<u32>(u64{low24(a)} * low24(b)); }>());
  t.add("v_mul_i32_i24", lanes<[](u32 a, u32 b) { return static_cast<u32>(signed24(a) * signed24(b)); }>());
  t.add("v_mul_hi_u32_u24", lanes<[](u32 a, u32 b) { return static_cast<u32>(u64{low24(a)} * low24(b) >> 32); }>());
  t.add("v_mul_hi_i32_i24", lanes<[](u32 a, u32 b) { return static_cast<u32>(signed24(a) * signed24(b) >> 32); }>());
  t.add("v_mad_u32_u24", lanes<[](u32 a, u32 b, u32 c) { return U{i64{low24(a)} * low24(b) + c}; }>());
  t.add("v_mad_i32_i24", lanes<[](u32 a, u32 b, i32 c) { return I{signed24(a) * signed24(b) + c}; }>());
  t.add("v_mad_u32_u16", lanes<[](u16 a, u16 b, u32 c) { return U{i64{a} * b + c}; }>());
  t.add("v_mad_i32_i16", lanes<[](i16 a, i16 b, i32 c) { return I{i64{a} * b + c}; }>());
}

void add_32_bit_order(Table& t) {
  t.add("v_min_u32", lanes<[](u32 a, u32 b) { return std::min(a, b); }>());
  t.add("v_max_u32", lanes<[](u32 a, u32 b) { return std::max(a, b); }>());
  t.add("v_min_i32", lanes<[](i32 a, i32 b) { return std::min(a, b); }>());
  t.add("v_max_i32", lanes<[](i32 a, i32 b) { return std::max(a, b); }>());
  t.add("v_min3_u32", lanes<[](u32 a, u32 b, u32 c) { return std::min({a, b, c}); }>());
  t.add("v_max3_u32", lanes<[](u32 a, u32 b, u32 c) { return std::max({a, b, c}); }>());
  t.add("v_med3_u32", lanes<[](u32 a, u32 b, u32 c) { return median(a, b, c); }>());
  t.add("v_min3_i32", lanes<[](i32 a, i32 b, i32 c) { return std::min({a, b, c}); }>());
  t.add("v_max3_i32", lanes<[](i32 a, i32 b, i32 c) { return std::max({a, b, c}); }>());
  t.add("v_med3_i32", lanes<[](i32 a, i32 b, i32 c) { return median(a, b, c); }>());
}

void add_32_bit_logic(Table& t) {
  t.add("v_not_b32", lanes<[](u32 a) { return ~a; }>());
  t.add("v_and_b32", lanes<[](u32 a, u32 b) { return a & b; }>());
  t.add("v_or_b32", lanes<[](u32 a, u32 b) { return a | b; }>());
  t.add("v_xor_b32", lanes<[](u32 a, u32 b) { return a ^ b; }>());
  t.add("v_xnor_b32", lanes<[](u32 a, u32 b) { return ~(a ^ b); }>());
  t.add("v_and_or_b32", lanes<[](u32 a, u32 b, u32 c) { return (a & b) | c; }>());
  t.add("v_or3_b32", lanes<[](u32 a, u32 b, u32 c) { return a | b | c; }>());
  t.add("v_lshl_or_b32", lanes<[](u32 a, u32 b, u32 c) { return (a << (b & 31)) | c; }>());
  t.add("v_lshlrev_b32", lanes<[](u32 a, u32 b) { return b << (a & 31); }>());
  t.add("v_lshrrev_b32", lanes<[](u32 a, u32 b) { return (b >> (a & 31)); }>());
  t.add("v_ashrrev_i32", lanes<[](u32 a, i32 b) { return (b >> (a & 31)); }>());
  t.add("v_bfrev_b32", lanes<[](u32 a) { return reverse(a); }>());
  t.add("v_bfe_u32", lanes<[](u32 a, u32 b, u32 c) { return extract(a, b, c); }>());
  t.add("v_bfe_i32", lanes<[](u32 a, u32 b, u32 c) { return extract_signed(a, b, c); }>());
  t.add("v_bfi_b32", lanes<[](u32 a, u32 b, u32 c) { return (a & b) | (~a & c); }>());
  t.add("v_bfm_b32", lanes<[](u32 a, u32 b) { return ((1u << (a & 31)) - 1) << (b & 31); }>());
  t.add("v_bcnt_u32_b32", lanes<[](u32 a, u32 b) { return static_cast<u32>(std::popcount(a)) + b; }>());
  t.add("v_ffbh_u32", lanes<[](u32 a) { return first_bit_high(a); }>());
  t.add("v_ffbh_i32", lanes<[](u32 a) { return first_bit_signed(a); }>());
  t.add("v_ffbl_b32", lanes<[](u32 a) { return first_bit_low(a); }>());
  t.add("v_alignbit_b32", lanes<[](u32 a, u32 b, u32 c) { return static_cast<u32>(join(b, a) >> (c & 31)); }>());
  t.add("v_alignbyte_b32", lanes<[](u32 a, u32 b, u32 c) { return static_cast<u32>(join(b, a) >> 8 * (c & 3)); }>());
  t.add("v_bitop3_b32", {bit_operation<u32, 32>, Class::vector_alu});
  t.add("v_bitop3_b16", {bit_operation<u16, 16>, Class::vector_alu, kOpSel | kKeepsRest});
}

void add_16_bit(Table& t) {
  using U = Exact<u16>;
  using I = Exact<i16>;
  t.add("v_add_u16", lanes<[](u16 a, u16 b) { return U{i64{a} + b}; }>());
  t.add("v_sub_u16", lanes<[](u16 a, u16 b) { return U{i64{a} - b}; }>());
  t.add("v_subrev_u16", lanes<[](u16 a, u16 b) { return U{i64{b} - a}; }>());
  t.add("v_add_i16", lanes<[](i16 a, i16 b) { return I{i64{a} + b}; }>(kKeepsRest));
  t.add("v_sub_i16", lanes<[](i16 a, i16 b) { return I{i64{a} - b}; }>(kKeepsRest));
  t.add("v_mul_lo_u16", lanes<[](u16 a, u16 b) { return static_cast<u16>(u32{a} * b); }>());
  constexpr auto mad_unsigned = [](u16 a, u16 b, u16 c) { return U{i64{a} * b + c}; };
  constexpr auto mad_signed = [](i16 a, i16 b, i16 c) { return I{i64{a} * b + c}; };
  t.add("v_mad_u16", lanes<mad_unsigned>(kKeepsRest));
  t.add("v_mad_i16", lanes<mad_signed>(kKeepsRest));
  t.add("v_mad_legacy_u16", lanes<mad_unsigned>());
  t.add("v_mad_legacy_i16", lanes<mad_signed>());
  t.add("v_lshlrev_b16", lanes<[](u16 a, u16 b) { return static_cast<u16>(b << (a & 15)); }>());
  t.add("v_lshrrev_b16", lanes<[](u16 a, u16 b) { return static_cast<u16>(b >> (a & 15)); }>());
  t.add("v_ashrrev_i16", lanes<[](u16 a, i16 b) { return static_cast<i16>(b >> (a & 15)); }>());
  t.add("v_min_u16", lanes<[](u16 a, u16 b) { return std::min(a, b); }>());
  t.add("v_max_u16", lanes<[](u16 a, u16 b) { return std::max(a, b); }>());
  t.add("v_min_i16", lanes<[](i16 a, i16 b) { return std::min(a, b); }>());
  t.add("v_max_i16", lanes<[](i16 a, i16 b) { return std::max(a, b); }>());
  t.add("v_min3_u16", lanes<[](u16 a, u16 b, u16 c) { return std::min({a, b, c}); }>(kKeepsRest));
  t.add("v_max3_u16", lanes<[](u16 a, u16 b, u16 c) { return std::max({a, b, c}); }>(kKeepsRest));
  t.add("v_med3_u16", lanes<[](u16 a, u16 b, u16 c) { return median(a, b, c); }>(kKeepsRest));
  t.add("v_min3_i16", lanes<[](i16 a, i16 b, i16 c) { return std::min({a, b, c}); }>(kKeepsRest));
  t.add("v_max3_i16", lanes<[](i16 a, i16 b, i16 c) { return std::max({a, b, c}); }>(kKeepsRest));
  t.add("v_med3_i16", lanes<[](i16 a, i16 b, i16 c) { return median(a, b, c); }>(kKeepsRest));
}

void add_64_bit(Table& t) {
  t.add("v_lshlrev_b64", lanes<[](u32 a, u64 b) { return b << (a & 63); }>());
  t.add("v_lshrrev_b64", lanes<[](u32 a, u64 b) { return (b >> (a & 63)); }>());
  t.add("v_ashrrev_i64", lanes<[](u32 a, i64 b) { return (b >> (a & 63)); }>());
  t.add("v_lshl_add_u64", lanes<[](u64 a, u32 b, u64 c) { return (a << (b & 7)) + c; }>());
}

}  // namespace

void add_vector_integer(Table& t) {
  add_32_bit_arithmetic(t);
  add_32_bit_order(t);
  add_32_bit_logic(t);
  add_16_bit(t);
  add_64_bit(t);
}

}  // namespace jaxator::emulator
