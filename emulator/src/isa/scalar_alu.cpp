/// @file
/// Scalar arithmetic and logic (SOP1, SOP2, SOPK).
#include <algorithm>

#include "emulator/src/isa/scalars.h"
#include "emulator/src/machine/launch_state.h"

namespace jaxator::emulator {
namespace {

template <class F> struct ScalarSignature : ScalarSignature<decltype(&F::operator())> {};
template <class C, class R, class... A> struct ScalarSignature<R (C::*)(A...) const> {
  using Result = R;
  using Sources = std::tuple<A...>;
};

template <class T> T read_as(const Wave& w, const Operand& operand) {
  if constexpr (sizeof(T) != 8) return static_cast<T>(read_scalar(w, operand));
  if constexpr (std::is_same_v<T, i64>)
    if (operand.is_literal) return static_cast<i32>(operand.bits);
  return static_cast<T>(read_scalar64(w, operand));
}
template <class T> void write_as(Wave& w, const Operand& operand, T value) {
  if constexpr (sizeof(T) == 8)
    write_scalar64(w, operand, static_cast<u64>(value));
  else
    write_scalar(w, operand, static_cast<u32>(value));
}

/// A result that comes with its SCC.
template <class T> struct WithScc {
  T value;
  bool scc;
};
template <class T> struct ValueOf {
  using type = T;
};
template <class T> struct ValueOf<WithScc<T>> {
  using type = T;
};

enum class Scc { kept, nonzero };

template <auto function, Scc scc> void compute(Wave& w, const Instruction& i) {
  using S = ScalarSignature<decltype(function)>;
  using A = typename S::Sources;
  const auto result = [&]<size_t... s>(std::index_sequence<s...>) {
    return function(read_as<std::tuple_element_t<s, A>>(w, i.operand(1 + static_cast<int>(s)))...);
  }(std::make_index_sequence<std::tuple_size_v<A>>());
  if constexpr (std::is_same_v<typename ValueOf<typename S::Result>::type, typename S::Result>) {
    write_as(w, i.operand(0), result);
    if (scc == Scc::nonzero) w.set_scc(result != 0);
  } else {
    write_as(w, i.operand(0), result.value);
    w.set_scc(result.scc);
  }
}

template <auto function> Entry plain(u32 traits = 0) { return {compute<function, Scc::kept>, Class::scalar_alu, traits}; }
template <auto function> Entry with_scc(u32 traits = 0) {
  return {compute<function, Scc::nonzero>, Class::scalar_alu, traits | kWritesScc};
}

// ---- arithmetic ------------------------------------------------------------------------------------------------------

using Carry = WithScc<u32>;
using Overflow = WithScc<i32>;

constexpr Carry with_carry(u64 sum) { return {static_cast<u32>(sum), sum >> 32 != 0}; }
constexpr Overflow with_overflow(i64 sum) { return {static_cast<i32>(sum), sum != static_cast<i32>(sum)}; }

template <bool subtract> void add_with_carry(Wave& w, const Instruction& i) {
  const u64 a = read_scalar(w, i.operand(1)), b = read_scalar(w, i.operand(2)), carry = w.scc();
  const Carry result = with_carry(subtract ? a - b - carry : a + b + carry);
  write_scalar(w, i.operand(0), result.value);
  w.set_scc(result.scc);
}

void add_arithmetic(Table& t) {
  t.add("s_add_u32", with_scc<[](u32 a, u32 b) { return with_carry(u64{a} + b); }>());
  t.add("s_sub_u32", with_scc<[](u32 a, u32 b) { return with_carry(u64{a} - b); }>());
  t.add("s_add_i32", with_scc<[](i32 a, i32 b) { return with_overflow(i64{a} + b); }>());
  t.add("s_sub_i32", with_scc<[](i32 a, i32 b) { return with_overflow(i64{a} - b); }>());
  t.add("s_addc_u32", {add_with_carry<false>, Class::scalar_alu, kReadsScc | kWritesScc});
  t.add("s_subb_u32", {add_with_carry<true>, Class::scalar_alu, kReadsScc | kWritesScc});
  t.add("s_lshl1_add_u32", with_scc<[](u32 a, u32 b) { return with_carry((u64{a} << 1) + b); }>());
  t.add("s_lshl2_add_u32", with_scc<[](u32 a, u32 b) { return with_carry((u64{a} << 2) + b); }>());
  t.add("s_lshl3_add_u32", with_scc<[](u32 a, u32 b) { return with_carry((u64{a} << 3) + b); }>());
  t.add("s_lshl4_add_u32", with_scc<[](u32 a, u32 b) { return with_carry((u64{a} << 4) + b); }>());
  t.add("s_mul_i32", plain<[](u32 a, u32 b) { return a * b; }>());
  t.add("s_mul_hi_u32", plain<[](u32 a, u32 b) { return static_cast<u32>(u64{a} * b >> 32); }>());
  t.add("s_mul_hi_i32", plain<[](i32 a, i32 b) { return static_cast<i32>(i64{a} * b >> 32); }>());
  t.add("s_min_i32", with_scc<[](i32 a, i32 b) { return Overflow{std::min(a, b), a < b}; }>());
  t.add("s_min_u32", with_scc<[](u32 a, u32 b) { return Carry{std::min(a, b), a < b}; }>());
  t.add("s_max_i32", with_scc<[](i32 a, i32 b) { return Overflow{std::max(a, b), a >= b}; }>());
  t.add("s_max_u32", with_scc<[](u32 a, u32 b) { return Carry{std::max(a, b), a >= b}; }>());
  t.add("s_abs_i32", with_scc<[](u32 a) { return static_cast<i32>(a) < 0 ? 0 - a : a; }>());
  t.add("s_absdiff_i32", with_scc<[](u32 a, u32 b) { return static_cast<i32>(a - b) < 0 ? b - a : a - b; }>());
}

// ---- logic and shifts ------------------------------------------------------------------------------------------------

template <class T> void add_logic(Table& t, const std::string& bits) {
  t.add("s_not" + bits, with_scc<[](T a) { return static_cast<T>(~a); }>());
  t.add("s_and" + bits, with_scc<[](T a, T b) { return a & b; }>());
  t.add("s_or" + bits, with_scc<[](T a, T b) { return a | b; }>());
  t.add("s_xor" + bits, with_scc<[](T a, T b) { return a ^ b; }>());
  t.add("s_andn2" + bits, with_scc<[](T a, T b) { return a & ~b; }>());
  t.add("s_orn2" + bits, with_scc<[](T a, T b) { return a | ~b; }>());
  t.add("s_nand" + bits, with_scc<[](T a, T b) { return ~(a & b); }>());
  t.add("s_nor" + bits, with_scc<[](T a, T b) { return ~(a | b); }>());
  t.add("s_xnor" + bits, with_scc<[](T a, T b) { return ~(a ^ b); }>());
  constexpr u32 mask = sizeof(T) * 8 - 1;
  t.add("s_lshl" + bits, with_scc<[](T a, u32 b) { return a << (b & mask); }>());
  t.add("s_lshr" + bits, with_scc<[](T a, u32 b) { return (a >> (b & mask)); }>());
  t.add("s_bfm" + bits, plain<[](u32 a, u32 b) { return ((T{1} << (a & mask)) - 1) << (b & mask); }>());
}

/// Bits 0..4 or 5 of b are an offset, bits 16..22 a count.
template <class T> T extract(T a, u32 b) {
  const u32 bits = sizeof(T) * 8, offset = b & (bits - 1), count = std::min(b >> 16 & 127, bits);
  if (count == 0) return 0;
  using Unsigned = std::make_unsigned_t<T>;
  const T shifted = static_cast<T>(a >> offset);  // signed: repeats the sign
  const u32 above = bits - count;
  return static_cast<T>(static_cast<T>(static_cast<Unsigned>(shifted) << above) >> above);
}

void add_shifts(Table& t) {
  t.add("s_ashr_i32", with_scc<[](i32 a, u32 b) { return (a >> (b & 31)); }>());
  t.add("s_ashr_i64", with_scc<[](i64 a, u32 b) { return (a >> (b & 63)); }>());
  t.add("s_bfe_u32", with_scc<[](u32 a, u32 b) { return extract(a, b); }>());
  t.add("s_bfe_i32", with_scc<[](i32 a, u32 b) { return extract(a, b); }>());
  t.add("s_bfe_u64", with_scc<[](u64 a, u32 b) { return extract(a, b); }>());
  t.add("s_bfe_i64", with_scc<[](i64 a, u32 b) { return extract(a, b); }>());
  t.add("s_pack_ll_b32_b16", plain<[](u32 a, u32 b) { return (a & 0xFFFF) | b << 16; }>());
  t.add("s_pack_lh_b32_b16", plain<[](u32 a, u32 b) { return (a & 0xFFFF) | (b & 0xFFFF0000); }>());
  t.add("s_pack_hh_b32_b16", plain<[](u32 a, u32 b) { return (a >> 16 | (b & 0xFFFF0000)); }>());
}

// ---- bits ------------------------------------------------------------------------------------------------------------

template <class T> T reverse(T a) {
  T out = 0;
  for (size_t k = 0; k < sizeof(T) * 8; k++) out = static_cast<T>(out << 1 | (a >> k & 1));
  return out;
}
template <class T> i32 first_low(T a) { return a != 0 ? std::countr_zero(a) : -1; }
template <class T> i32 first_high(T a) { return a != 0 ? std::countl_zero(a) : -1; }
template <class T> i32 first_unlike_sign(T a) {
  using S = std::make_signed_t<T>;
  return first_high(static_cast<S>(a) < 0 ? static_cast<T>(~a) : a);
}
/// One bit for each four: set if any of them is.
template <class T> T any_of_four(T a) {
  T out = 0;
  for (size_t k = 0; k < sizeof(T) * 2; k++) out |= T{(a >> 4 * k & 15) != 0} << k;
  return out;
}
/// Four bits for each four.
template <class T> T whole_quads(T a) {
  T out = 0;
  for (size_t k = 0; k < sizeof(T) * 2; k++) out |= (a >> 4 * k & 15) != 0 ? T{15} << 4 * k : 0;
  return out;
}
u64 replicate(u32 a) {
  u64 out = 0;
  for (int k = 0; k < 32; k++) out |= u64{a >> k & 1} * 3 << 2 * k;
  return out;
}

template <class T> void add_bits(Table& t, const std::string& bits) {
  const std::string count = "_i32" + bits;
  t.add("s_brev" + bits, plain<[](T a) { return reverse(a); }>());
  t.add("s_bcnt0" + count, with_scc<[](T a) { return static_cast<u32>(std::popcount(static_cast<T>(~a))); }>());
  t.add("s_bcnt1" + count, with_scc<[](T a) { return static_cast<u32>(std::popcount(a)); }>());
  t.add("s_ff0" + count, plain<[](T a) { return first_low(static_cast<T>(~a)); }>());
  t.add("s_ff1" + count, plain<[](T a) { return first_low(a); }>());
  t.add("s_flbit" + count, plain<[](T a) { return first_high(a); }>());
  t.add("s_quadmask" + bits, with_scc<[](T a) { return any_of_four(a); }>());
  t.add("s_wqm" + bits, with_scc<[](T a) { return whole_quads(a); }>());
}

/// The bit of the destination that the source names.
template <class T, bool value> void set_bit(Wave& w, const Instruction& i) {
  const T bit = T{1} << (read_scalar(w, i.operand(1)) & (sizeof(T) * 8 - 1));
  const T before = read_as<T>(w, i.operand(0));
  write_as<T>(w, i.operand(0), value ? before | bit : before & ~bit);
}

// ---- moves -----------------------------------------------------------------------------------------------------------

template <class T> void select(Wave& w, const Instruction& i) {
  write_as<T>(w, i.operand(0), read_as<T>(w, i.operand(w.scc() ? 1 : 2)));
}
template <class T> void move_if(Wave& w, const Instruction& i) {
  if (w.scc()) write_as<T>(w, i.operand(0), read_as<T>(w, i.operand(1)));
}

/// The register that lies M0 behind the one named.
Operand relative(const Wave& w, Operand operand) {
  const u64 index = u64{operand.index} + w.scalar[kM0];
  if (!operand.is_scalar() || index + operand.registers > kUserScalars)
    throw Fault{Kind::out_of_bounds, "scalar register " + std::to_string(index) + " of " + std::to_string(kUserScalars)};
  operand.index = static_cast<u16>(index);
  return operand;
}
template <class T> void move_from_relative(Wave& w, const Instruction& i) {
  write_as<T>(w, i.operand(0), read_as<T>(w, relative(w, i.operand(1))));
}
template <class T> void move_to_relative(Wave& w, const Instruction& i) {
  write_as<T>(w, relative(w, i.operand(0)), read_as<T>(w, i.operand(1)));
}

i32 immediate16(const Instruction& i) { return static_cast<i16>(i.operand(1).bits); }

void move_immediate(Wave& w, const Instruction& i) { write_as(w, i.operand(0), immediate16(i)); }
void move_immediate_if(Wave& w, const Instruction& i) {
  if (w.scc()) move_immediate(w, i);
}
void add_immediate(Wave& w, const Instruction& i) {
  const Overflow sum = with_overflow(i64{static_cast<i32>(read_scalar(w, i.operand(0)))} + immediate16(i));
  write_as(w, i.operand(0), sum.value);
  w.set_scc(sum.scc);
}
void multiply_immediate(Wave& w, const Instruction& i) {
  write_scalar(w, i.operand(0), read_scalar(w, i.operand(0)) * static_cast<u32>(immediate16(i)));
}

void add_moves(Table& t) {
  t.add("s_mov_b32", plain<[](u32 a) { return a; }>());
  t.add("s_mov_b64", plain<[](u64 a) { return a; }>());
  t.add("s_sext_i32_i8", plain<[](u32 a) { return sign_extend(a & 255, 8); }>());
  t.add("s_sext_i32_i16", plain<[](u32 a) { return sign_extend(a & 0xFFFF, 16); }>());
  t.add("s_bitreplicate_b64_b32", plain<[](u32 a) { return replicate(a); }>());
  const auto add = [&](const char* name, Function execute, u32 traits) { t.add(name, {execute, Class::scalar_alu, traits}); };
  add("s_cselect_b32", select<u32>, kReadsScc);
  add("s_cselect_b64", select<u64>, kReadsScc);
  add("s_cmov_b32", move_if<u32>, kReadsScc | kKeepsRest);
  add("s_cmov_b64", move_if<u64>, kReadsScc | kKeepsRest);
  add("s_cmovk_i32", move_immediate_if, kReadsScc | kKeepsRest);
  add("s_movk_i32", move_immediate, 0);
  add("s_addk_i32", add_immediate, kWritesScc | kKeepsRest);
  add("s_mulk_i32", multiply_immediate, kKeepsRest);
  add("s_movrels_b32", move_from_relative<u32>, kReadsM0);
  add("s_movrels_b64", move_from_relative<u64>, kReadsM0);
  add("s_movreld_b32", move_to_relative<u32>, kReadsM0);
  add("s_movreld_b64", move_to_relative<u64>, kReadsM0);
  add("s_bitset0_b32", set_bit<u32, false>, kKeepsRest);
  add("s_bitset1_b32", set_bit<u32, true>, kKeepsRest);
  add("s_bitset0_b64", set_bit<u64, false>, kKeepsRest);
  add("s_bitset1_b64", set_bit<u64, true>, kKeepsRest);
}

// ---- EXEC ------------------------------------------------------------------------------------------------------------

/// EXEC becomes a function of the source and itself, and the destination gets the old one.
template <auto function> void save_exec(Wave& w, const Instruction& i) {
  const u64 before = w.exec(), after = function(read_scalar64(w, i.operand(1)), before);
  write_scalar64(w, i.operand(0), before);
  w.set_exec(after);
  w.set_scc(after != 0);
}
/// The same, but the destination gets the new one.
template <auto function> void write_exec(Wave& w, const Instruction& i) {
  const u64 after = function(read_scalar64(w, i.operand(1)), w.exec());
  write_scalar64(w, i.operand(0), after);
  w.set_exec(after);
  w.set_scc(after != 0);
}

void add_exec(Table& t) {
  constexpr u32 traits = kWritesScc | kReadsExec | kWritesExec;
  const auto add = [&](const char* name, Function execute) { t.add(name, {execute, Class::scalar_alu, traits}); };
  add("s_and_saveexec_b64", save_exec<[](u64 a, u64 exec) { return a & exec; }>);
  add("s_or_saveexec_b64", save_exec<[](u64 a, u64 exec) { return a | exec; }>);
  add("s_xor_saveexec_b64", save_exec<[](u64 a, u64 exec) { return a ^ exec; }>);
  add("s_andn2_saveexec_b64", save_exec<[](u64 a, u64 exec) { return a & ~exec; }>);
  add("s_orn2_saveexec_b64", save_exec<[](u64 a, u64 exec) { return a | ~exec; }>);
  add("s_nand_saveexec_b64", save_exec<[](u64 a, u64 exec) { return ~(a & exec); }>);
  add("s_nor_saveexec_b64", save_exec<[](u64 a, u64 exec) { return ~(a | exec); }>);
  add("s_xnor_saveexec_b64", save_exec<[](u64 a, u64 exec) { return ~(a ^ exec); }>);
  add("s_andn1_saveexec_b64", save_exec<[](u64 a, u64 exec) { return ~a & exec; }>);
  add("s_orn1_saveexec_b64", save_exec<[](u64 a, u64 exec) { return ~a | exec; }>);
  add("s_andn1_wrexec_b64", write_exec<[](u64 a, u64 exec) { return ~a & exec; }>);
  add("s_andn2_wrexec_b64", write_exec<[](u64 a, u64 exec) { return a & ~exec; }>);
}

}  // namespace

void add_scalar_alu(Table& t) {
  add_arithmetic(t);
  add_logic<u32>(t, "_b32");
  add_logic<u64>(t, "_b64");
  add_shifts(t);
  add_bits<u32>(t, "_b32");
  add_bits<u64>(t, "_b64");
  t.add("s_flbit_i32", plain<[](u32 a) { return first_unlike_sign(a); }>());
  t.add("s_flbit_i32_i64", plain<[](u64 a) { return first_unlike_sign(a); }>());
  add_moves(t);
  add_exec(t);
}

}  // namespace jaxator::emulator
