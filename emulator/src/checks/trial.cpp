#include "emulator/src/checks/trial.h"

#include <algorithm>
#include <cstring>

namespace jaxator::emulator {
namespace {

/// A word of the greatest positive value of a float format, whichever word of the value it is: infinity, or in double precision a
/// number just below it. 0 if the instruction has to do with no floats.
u32 greatest_float(const std::string& name) {
  if (name.find("_f32") != name.npos) return 0x7F800000;
  if (name.find("_f16") != name.npos) return 0x7C007C00;
  if (name.find("_f64") != name.npos) return 0x7FEFFFFF;
  return 0;
}

/// Bits that have nothing to do with the contents, the same in every run.
u32 scramble(u32 a) {
  a = (a ^ 61) ^ a >> 16;
  a *= 9;
  a ^= a >> 4;
  a *= 0x27D4EB2D;
  return a ^ a >> 15;
}

}  // namespace

Trial::Trial(const Wave& w, const Instruction& i, LaneRegister* vector_marks, u32* scalar_marks)
    : vector_marks_(vector_marks), scalar_marks_(scalar_marks), next_pc_(w.next_pc), mode_(w.mode), index_mode_(w.index_mode) {
  memcpy(scalars_, w.scalar, sizeof scalars_);
  const auto add = [&](const RegisterRange& range, bool is_result) {
    for (int k = 0; k < range.count; k++) {
      const u16 index = static_cast<u16>(range.first + k);
      if (!range.is_vector) {
        if (is_result) scalar_results_.push_back(index);
        continue;
      }
      const auto known = std::find_if(rows_.begin(), rows_.end(), [&](const Row& row) { return row.index == index; });
      if (known != rows_.end()) {
        known->is_result |= is_result;
        continue;
      }
      Row& row = rows_.emplace_back();
      row.index = index, row.is_result = is_result;
      memcpy(row.before, w.vector[index], sizeof row.before);
      memset(row.differences, 0, sizeof row.differences);
    }
  };
  for (const RegisterRange& range : i.results) add(range, true);
  for (const RegisterRange& range : i.sources) add(range, false);
}

template <class Bits> void Trial::fill(Wave& w, const Bits& bits) {
  for (const Row& row : rows_)
    for (int l = 0; l < kLanes; l++) {
      const u32 marks = vector_marks_[row.index][l];
      w.vector[row.index][l] = (row.before[l] & ~marks) | (bits(row.index, l) & marks);
    }
  for (int r = 0; r < kScalarRegisters; r++) {
    const u32 marks = r == kScc ? scalar_marks_[r] & 1 : scalar_marks_[r];
    w.scalar[r] = (scalars_[r] & ~marks) | (bits(kVectorRegisters + r, 0) & marks);
  }
}

/// Each source of a comparison gets the bits of the other one, so that they are equal if they can be.
void Trial::fill_from_other(Wave& w, const Instruction& i) {
  const int first = i.has(kNoResult) ? 0 : 1;
  const Operand &a = i.operand(first), &b = i.operand(first + 1);
  const auto other = [&](int reg, int lane) -> u32 {
    for (const auto& [own, from] : {std::pair(&a, &b), std::pair(&b, &a)}) {
      const int index = own->is_vector() ? own->index : own->is_scalar() ? kVectorRegisters + own->index : -1, part = reg - index;
      if (index < 0 || part < 0 || part >= own->registers) continue;
      if (from->is_constant()) return part == 0 ? from->bits : 0;
      if (from->is_scalar()) return scalars_[from->index + (part < from->registers ? part : 0)];
      for (const Row& row : rows_)
        if (row.index == from->index + part) return row.before[lane];
    }
    return 0;
  };
  fill(w, other);
}

void Trial::restore(Wave& w) const {
  for (const Row& row : rows_) memcpy(w.vector[row.index], row.before, sizeof row.before);
  memcpy(w.scalar, scalars_, sizeof scalars_);
  w.next_pc = next_pc_, w.mode = mode_, w.index_mode = index_mode_;
}

void Trial::keep_first(const Wave& w) {
  for (Row& row : rows_) memcpy(row.first, w.vector[row.index], sizeof row.first);
  memcpy(first_scalars_, w.scalar, sizeof first_scalars_);
  first_next_pc_ = w.next_pc;
}

void Trial::compare(const Wave& w) {
  for (Row& row : rows_)
    for (int l = 0; l < kLanes; l++) row.differences[l] |= row.first[l] ^ w.vector[row.index][l];
  for (int r = 0; r < kScalarRegisters; r++) scalar_differences_[r] |= first_scalars_[r] ^ w.scalar[r];
  branches_differ |= first_next_pc_ != w.next_pc;
}

void Trial::run_filled(Wave& w, const Instruction& i) {
  try {
    i.execute(w, i);
  } catch (const Fault&) {
    // Only bits that are not there led to it.
  }
  if (has_first_)
    compare(w);
  else
    keep_first(w);
  has_first_ = true;
  restore(w);
}

void Trial::run_all(Wave& w, const Instruction& i) {
  // The least and the greatest number, unsigned and signed, decide every comparison by size that can be decided.
  for (const u32 bits : {0u, ~0u, 0x80000000u, 0x7FFFFFFFu}) {
    fill(w, [&](int, int) { return bits; });
    run_filled(w, i);
  }
  // As floats these are zeros and NaNs, with which conversions, greatest and least values and "not greater" come out alike.
  if (const u32 greatest = greatest_float(i.name); greatest != 0) {
    const u32 least = greatest | (greatest == 0x7C007C00 ? 0x80008000 : 0x80000000);
    for (const u32 bits : {greatest, least}) {
      fill(w, [&](int, int) { return bits; });
      run_filled(w, i);
    }
  }
  fill(w, [](int reg, int lane) { return scramble(static_cast<u32>(reg * kLanes + lane)); });
  run_filled(w, i);
  if (i.name.starts_with("v_cmp") || i.name.starts_with("s_cmp")) {
    fill_from_other(w, i);
    run_filled(w, i);
  }
  i.execute(w, i);
  compare(w);
  for (const Row& row : rows_)
    if (row.is_result) memcpy(vector_marks_[row.index], row.differences, sizeof row.differences);
  for (const u16 r : scalar_results_) scalar_marks_[r] = scalar_differences_[r];
}

}  // namespace jaxator::emulator
