/// @file
/// Scalar comparisons (SOPC, SOPK): the result is SCC.
#include "emulator/src/isa/scalars.h"

namespace jaxator::emulator {
namespace {

template <class T, auto holds> void compare(Wave& w, const Instruction& i) {
  if constexpr (sizeof(T) == 8)
    w.set_scc(holds(read_scalar64(w, i.operand(0)), read_scalar64(w, i.operand(1))));
  else
    w.set_scc(holds(static_cast<T>(read_scalar(w, i.operand(0))), static_cast<T>(read_scalar(w, i.operand(1)))));
}

/// With 16 bits of the instruction, extended like the type.
template <class T, auto holds> void compare_immediate(Wave& w, const Instruction& i) {
  using Half = std::conditional_t<std::is_signed_v<T>, i16, u16>;
  w.set_scc(holds(static_cast<T>(read_scalar(w, i.operand(0))), T{static_cast<Half>(i.operand(1).bits)}));
}

template <class T, bool value> void test_bit(Wave& w, const Instruction& i) {
  const T bits = static_cast<T>(sizeof(T) == 8 ? read_scalar64(w, i.operand(0)) : read_scalar(w, i.operand(0)));
  w.set_scc((bits >> (read_scalar(w, i.operand(1)) & (sizeof(T) * 8 - 1)) & 1) == T{value});
}

constexpr u32 kTraits = kNoResult | kWritesScc;

template <class T> void add_type(Table& t, const std::string& type) {
  const auto add = [&](const std::string& condition, Function registers, Function immediate) {
    t.add("s_cmp_" + condition + type, {registers, Class::scalar_alu, kTraits});
    t.add("s_cmpk_" + condition + type, {immediate, Class::scalar_alu, kTraits});
  };
  constexpr auto equal = [](T a, T b) { return a == b; };
  constexpr auto unequal = [](T a, T b) { return a != b; };
  constexpr auto greater = [](T a, T b) { return a > b; };
  constexpr auto greater_equal = [](T a, T b) { return a >= b; };
  constexpr auto less = [](T a, T b) { return a < b; };
  constexpr auto less_equal = [](T a, T b) { return a <= b; };
  add("eq", compare<T, equal>, compare_immediate<T, equal>);
  add("lg", compare<T, unequal>, compare_immediate<T, unequal>);
  add("gt", compare<T, greater>, compare_immediate<T, greater>);
  add("ge", compare<T, greater_equal>, compare_immediate<T, greater_equal>);
  add("lt", compare<T, less>, compare_immediate<T, less>);
  add("le", compare<T, less_equal>, compare_immediate<T, less_equal>);
}

}  // namespace

void add_scalar_compare(Table& t) {
  add_type<i32>(t, "_i32");
  add_type<u32>(t, "_u32");
  const auto add = [&](const char* name, Function execute) { t.add(name, {execute, Class::scalar_alu, kTraits}); };
  add("s_cmp_eq_u64", compare<u64, [](u64 a, u64 b) { return a == b; }>);
  add("s_cmp_lg_u64", compare<u64, [](u64 a, u64 b) { return a != b; }>);
  add("s_bitcmp0_b32", test_bit<u32, false>);
  add("s_bitcmp1_b32", test_bit<u32, true>);
  add("s_bitcmp0_b64", test_bit<u64, false>);
  add("s_bitcmp1_b64", test_bit<u64, true>);
}

}  // namespace jaxator::emulator
