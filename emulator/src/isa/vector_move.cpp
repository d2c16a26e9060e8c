/// @file
/// Vector moves: between registers of all kinds, between lanes, and by condition.
#include "emulator/src/isa/lanes.h"

namespace jaxator::emulator {
namespace {

void no_operation(Wave&, const Instruction&) {}

int lane_of(const Wave& w, const Operand& operand) { return static_cast<int>(read_scalar(w, operand) & 63); }

void read_lane(Wave& w, const Instruction& i) {
  write_scalar(w, i.operand(0), w.vector[i.operand(1).index][lane_of(w, i.operand(2))]);
}

/// Of the lowest active lane, or lane 0 if there is none.
void read_first_lane(Wave& w, const Instruction& i) {
  const u64 exec = w.exec();
  const Operand& source = i.operand(1);
  const int lane = exec != 0 ? std::countr_zero(exec) : 0;
  write_scalar(w, i.operand(0), source.is_vector() ? w.vector[source.index][lane] : read_scalar(w, source));
}

/// Whatever EXEC says.
void write_lane(Wave& w, const Instruction& i) {
  w.vector[i.operand(0).index][lane_of(w, i.operand(2))] = read_scalar(w, i.operand(1));
}

void swap(Wave& w, const Instruction& i) {
  const u64 exec = w.exec();
  for (int l = 0; l < kLanes; l++)
    if (lane_in(exec, l)) std::swap(w.vector[i.operand(0).index][l], w.vector[i.operand(1).index][l]);
}

/// Odd rows of the first operand change places with the even rows of the second. A row has 16 or 32 lanes.
template <int row> void swap_rows(Wave& w, const Instruction& i) {
  LaneRegister &first = w.vector[i.operand(0).index], &second = w.vector[i.operand(1).index];
  const u64 exec = w.exec();
  for (int l = 0; l < kLanes; l++)
    if ((l & row) != 0 && lane_in(exec, l) && lane_in(exec, l - row)) std::swap(first[l], second[l - row]);
}

void select_by_mask(Wave& w, const Instruction& i) {
  u64 written = kAllLanes;
  Lanes<u32> clear, set, out;
  // Source modifiers change the sign of a float; nothing is flushed.
  const auto read = [&](int operand, Lanes<u32>& to) {
    const Operand& o = i.operand(operand);
    read_lanes(w, i, operand, operand - 1, to, written);
    for (u32& value : to) value = (value & (o.absolute ? 0x7FFFFFFF : ~0u)) ^ (o.negate ? 0x80000000 : 0);
  };
  read(1, clear);
  read(2, set);
  const u64 mask = read_scalar64(w, i.operand(3));
  for (int l = 0; l < kLanes; l++) out[l] = lane_in(mask, l) ? set[l] : clear[l];
  write_lanes(w, i, 0, 0, out, written);
}

/// How many of the mask's bits below this lane are set, in the low or the high 32 lanes, added to a number.
template <bool high> void count_bits_below(Wave& w, const Instruction& i) {
  u64 written = kAllLanes;
  Lanes<u32> mask, add, out;
  read_lanes(w, i, 1, 0, mask, written);
  read_lanes(w, i, 2, 1, add, written);
  for (int l = 0; l < kLanes; l++) {
    const u64 below = (u64{1} << l) - 1;
    out[l] = add[l] + static_cast<u32>(std::popcount(mask[l] & static_cast<u32>(high ? below >> 32 : below)));
  }
  write_lanes(w, i, 0, 0, out, written);
}

}  // namespace

void add_vector_move(Table& t) {
  constexpr auto copy = [](u32 a) { return a; };
  for (const char* name : {"v_mov_b32", "v_accvgpr_read_b32", "v_accvgpr_write_b32", "v_accvgpr_mov_b32"})
    t.add(name, lanes<copy>());
  t.add("v_mov_b64", lanes<[](u64 a) { return a; }>());
  t.add("v_nop", {.execute = no_operation, .unit = Class::nop});
  t.add("v_readlane_b32", {read_lane, Class::vector_alu, kCrossLane});
  t.add("v_readfirstlane_b32", {read_first_lane, Class::vector_alu, kCrossLane | kReadsExec});
  t.add("v_writelane_b32", {write_lane, Class::vector_alu, kCrossLane | kKeepsRest | kIgnoresExec});
  t.add("v_swap_b32", {swap, Class::vector_alu, kSwaps});
  t.add("v_permlane16_swap_b32", {swap_rows<16>, Class::vector_alu, kSwaps | kCrossLane});
  t.add("v_permlane32_swap_b32", {swap_rows<32>, Class::vector_alu, kSwaps | kCrossLane});
  t.add("v_cndmask_b32", {select_by_mask, Class::vector_alu, kSourceModifiers});
  t.add("v_mbcnt_lo_u32_b32", {count_bits_below<false>, Class::vector_alu});
  t.add("v_mbcnt_hi_u32_b32", {count_bits_below<true>, Class::vector_alu});
}

}  // namespace jaxator::emulator
