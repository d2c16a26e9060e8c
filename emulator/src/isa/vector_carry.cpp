/// @file
/// Vector integer arithmetic with a carry in, a carry out, or both: masks of lanes in scalar registers.
#include "emulator/src/isa/lanes.h"

namespace jaxator::emulator {
namespace {

enum class Operation { add, subtract, subtract_reversed };

/// Operands: result, carry out, a, b, and the carry in of the forms that have one.
template <Operation operation, bool carry_in> void with_carry(Wave& w, const Instruction& i) {
  u64 written = kAllLanes, carries = 0;
  Lanes<u32> a, b, out;
  read_lanes(w, i, 2, 0, a, written);
  read_lanes(w, i, 3, 1, b, written);
  const u64 in = carry_in ? read_scalar64(w, i.operand(4)) : 0;
  for (int l = 0; l < kLanes; l++) {
    const u64 carry = in >> l & 1;
    const u64 sum = operation == Operation::add        ? u64{a[l]} + b[l] + carry
                    : operation == Operation::subtract ? u64{a[l]} - b[l] - carry
                                                       : u64{b[l]} - a[l] - carry;
    const bool overflows = sum >> 32 != 0;
    carries |= u64{overflows} << l;
    out[l] = !i.clamp || !overflows ? static_cast<u32>(sum) : operation == Operation::add ? ~0u : 0u;
  }
  write_lanes(w, i, 0, 0, out, written);
  write_scalar64(w, i.operand(1), carries & w.exec());
}

/// a * b + c in 64 bits; bit 64 of the exact result is the carry out.
template <class T, class C> void multiply_add_wide(Wave& w, const Instruction& i) {
  u64 written = kAllLanes, carries = 0;
  Lanes<T> a, b;
  Lanes<C> c;
  Lanes<u64> out;
  read_source(w, i, 2, 0, a, written);
  read_source(w, i, 3, 1, b, written);
  read_source(w, i, 4, 2, c, written);
  for (int l = 0; l < kLanes; l++) {
    const __int128 sum = static_cast<__int128>(a[l]) * b[l] + c[l];
    out[l] = static_cast<u64>(sum);
    carries |= static_cast<u64>(sum >> 64 & 1) << l;
  }
  write_result(w, i, out, written);
  write_scalar64(w, i.operand(1), carries & w.exec());
}

}  // namespace

void add_vector_carry(Table& t) {
  constexpr u32 traits = kTwoResults | kClamp;
  t.add("v_add_co_u32", {with_carry<Operation::add, false>, Class::vector_alu, traits});
  t.add("v_sub_co_u32", {with_carry<Operation::subtract, false>, Class::vector_alu, traits});
  t.add("v_subrev_co_u32", {with_carry<Operation::subtract_reversed, false>, Class::vector_alu, traits});
  t.add("v_addc_co_u32", {with_carry<Operation::add, true>, Class::vector_alu, traits});
  t.add("v_subb_co_u32", {with_carry<Operation::subtract, true>, Class::vector_alu, traits});
  t.add("v_subbrev_co_u32", {with_carry<Operation::subtract_reversed, true>, Class::vector_alu, traits});
  t.add("v_mad_u64_u32", {multiply_add_wide<u32, u64>, Class::vector_alu, kTwoResults});
  t.add("v_mad_i64_i32", {multiply_add_wide<i32, i64>, Class::vector_alu, kTwoResults});
}

}  // namespace jaxator::emulator
