/// @file
/// Vector comparisons: a mask of lanes in a scalar pair, and in EXEC for v_cmpx. Inactive lanes give 0.
#include "emulator/src/isa/float_functions.h"
#include "emulator/src/isa/lanes.h"

namespace jaxator::emulator {
namespace {

/// Numbered as in the encoding. The "not" forms of floats are true for NaN.
enum Condition : u8 {
  kFalse,
  kLess,
  kEqual,
  kLessEqual,
  kGreater,
  kUnequal,
  kGreaterEqual,
  kOrdered,
  kUnordered,
  kNotGreaterEqual,
  kNotUnequal,
  kNotGreater,
  kNotLessEqual,
  kNotEqual,
  kNotLess,
  kTrue
};

template <class T> bool holds(u8 condition, T a, T b) {
  switch (condition) {
    case kLess:
      return a < b;
    case kEqual:
      return a == b;
    case kLessEqual:
      return a <= b;
    case kGreater:
      return a > b;
    case kUnequal:
      return a < b || a > b;
    case kGreaterEqual:
      return a >= b;
    case kOrdered:
      return a == a && b == b;
    case kUnordered:
      return a != a || b != b;
    case kNotGreaterEqual:
      return !(a >= b);
    case kNotUnequal:
      return !(a < b || a > b);
    case kNotGreater:
      return !(a > b);
    case kNotLessEqual:
      return !(a <= b);
    case kNotEqual:
      return !(a == b);
    case kNotLess:
      return !(a < b);
    default:
      return condition == kTrue;
  }
}

void write_mask(Wave& w, const Instruction& i, u64 mask, u64 written) {
  mask &= w.exec();
  if (i.dpp.used) mask &= written;
  if (i.operand(0).is_scalar()) write_scalar64(w, i.operand(0), mask);
  if (i.has(kCmpx)) w.set_exec(mask);
}

template <class T> void compare(Wave& w, const Instruction& i) {
  u64 written = kAllLanes, mask = 0;
  Lanes<T> a, b;
  read_source(w, i, 1, 0, a, written);
  read_source(w, i, 2, 1, b, written);
  for (int l = 0; l < kLanes; l++) mask |= u64{holds(i.detail.operation, a[l], b[l])} << l;
  write_mask(w, i, mask, written);
}
/// Half precision compares as double.
template <> void compare<f16>(Wave& w, const Instruction& i) {
  u64 written = kAllLanes, mask = 0;
  Lanes<f16> a, b;
  read_source(w, i, 1, 0, a, written);
  read_source(w, i, 2, 1, b, written);
  for (int l = 0; l < kLanes; l++) mask |= u64{holds<double>(i.detail.operation, a[l], b[l])} << l;
  write_mask(w, i, mask, written);
}

/// The second source has a bit for each class of numbers.
template <class T> void compare_class(Wave& w, const Instruction& i) {
  u64 written = kAllLanes, mask = 0;
  Lanes<u32> classes;
  read_lanes(w, i, 2, 1, classes, written);
  if constexpr (std::is_same_v<T, f16>) {
    Lanes<u32> halves;
    read_half_float_lanes(w, i, 1, 0, halves, written);
    for (int l = 0; l < kLanes; l++) {
      const bool denormal = (halves[l] & 0x7C00) == 0 && (halves[l] & 0x3FF) != 0;
      mask |= u64{(class_of(from_f16(halves[l]), denormal) & classes[l]) != 0} << l;
    }
  } else {
    Lanes<T> a;
    read_source(w, i, 1, 0, a, written);
    for (int l = 0; l < kLanes; l++) mask |= u64{(class_of(a[l], std::fpclassify(a[l]) == FP_SUBNORMAL) & classes[l]) != 0} << l;
  }
  write_mask(w, i, mask, written);
}

struct Type {
  const char* name;
  Function execute;
  bool is_float;
};

}  // namespace

void add_vector_compare(Table& t) {
  static constexpr const char* kFloatNames[] = {"f", "lt",  "eq",  "le",  "gt",  "lg",  "ge",  "o",
                                                "u", "nge", "nlg", "ngt", "nle", "neq", "nlt", "tru"};
  static constexpr const char* kIntegerNames[] = {"f", "lt", "eq", "le", "gt", "ne", "ge", "t"};
  static const Type kTypes[] = {{"f16", compare<f16>, true},  {"f32", compare<float>, true}, {"f64", compare<double>, true},
                                {"i16", compare<i16>, false}, {"u16", compare<u16>, false},  {"i32", compare<i32>, false},
                                {"u32", compare<u32>, false}, {"i64", compare<i64>, false},  {"u64", compare<u64>, false}};
  for (const bool writes_exec : {false, true}) {
    const std::string prefix = writes_exec ? "v_cmpx_" : "v_cmp_";
    const u32 traits = (writes_exec ? u32{kCmpx} : 0) | kOpSel;
    for (const Type& type : kTypes) {
      const auto add = [&](const char* condition, u8 number) {
        const u32 modifiers = type.is_float ? kSourceModifiers | kClamp : 0;  // clamp only asks for an exception flag
        t.add(prefix + condition + "_" + type.name, {type.execute, Class::vector_alu, traits | modifiers, {.operation = number}});
      };
      if (type.is_float)
        for (u8 k = 0; k < 16; k++) add(kFloatNames[k], k);
      else
        for (u8 k = 0; k < 8; k++) add(kIntegerNames[k], k == 7 ? u8{kTrue} : k);
    }
    t.add(prefix + "class_f16", {compare_class<f16>, Class::vector_alu, traits | kSourceModifiers});
    t.add(prefix + "class_f32", {compare_class<float>, Class::vector_alu, traits | kSourceModifiers});
    t.add(prefix + "class_f64", {compare_class<double>, Class::vector_alu, traits | kSourceModifiers});
  }
}

}  // namespace jaxator::emulator
