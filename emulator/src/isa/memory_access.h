/// @file
/// How memory instructions move data. An instruction first lists what its lanes touch, with every address checked; then bytes
/// move between memory and a value of each lane, and between those values and registers. The second step is a function of a
/// register plane, so that the same function moves values and, where uninitialised bits are followed, the marks of those bits.
#pragma once

#include "emulator/src/isa/scalars.h"
#include "emulator/src/machine/launch_state.h"

namespace jaxator::emulator {

inline constexpr int kMaxLaneBytes = 16;

/// What each lane loads or stores.
struct LaneValues {
  u8 at[kLanes][kMaxLaneBytes];
};

using Plane = LaneRegister;  // the first of 512
/// Puts loaded values into registers of the plane.
using Deliver = void (*)(Plane* plane, const Instruction& instruction, u64 lanes, const LaneValues& values);
/// Takes what to store from registers of the plane.
using Collect = void (*)(const Plane* plane, const Instruction& instruction, u64 lanes, LaneValues& values);

// ---- addresses -------------------------------------------------------------------------------------------------------

/// Checked accesses, of `bytes` at `at` of a lane's value. They throw Fault.
Access lds_access(Wave& w, u64 offset, int bytes, int lane, int at = 0);
Access scratch_access(Wave& w, u64 offset, int bytes, int lane, int at = 0);
/// An address that may be in LDS or scratch by its high word.
Access flat_access(Wave& w, u64 address, int bytes, int lane, int at = 0);
Access global_access(Wave& w, u64 address, int bytes, int lane, int at = 0);

// ---- data ------------------------------------------------------------------------------------------------------------

/// From memory, as w.accesses lists it, to registers.
void perform_load(Wave& w, const Instruction& i, u64 lanes, Deliver deliver);
/// From registers to memory.
void perform_store(Wave& w, const Instruction& i, u64 lanes, Collect collect);
/// From w.accesses to w.lds_accesses.
void perform_fetch_to_lds(Wave& w, const Instruction& i);

/// Whole registers, or the narrow forms: i.detail's bytes at operand 0.
void deliver_value(Plane* plane, const Instruction& i, u64 lanes, const LaneValues& values);
/// Operand `number`, i.detail's bytes.
template <int number> void collect_value(const Plane* plane, const Instruction& i, u64 lanes, LaneValues& values) {
  const Operand& operand = i.operand(number);
  const int bytes = i.detail.bytes;
  for (int l = 0; l < kLanes; l++) {
    if (!lane_in(lanes, l)) continue;
    if (bytes < 4) {
      const u32 value = plane[operand.index][l] >> (i.detail.high ? 16 : 0);
      memcpy(values.at[l], &value, bytes);
      continue;
    }
    for (int k = 0; k < bytes / 4; k++) memcpy(values.at[l] + 4 * k, &plane[operand.index + k][l], 4);
  }
}

/// Several threads may touch the same bytes: aligned words move whole.
void copy_from_shared(u8* to, const u8* from, int bytes);
void copy_to_shared(u8* to, const u8* from, int bytes);

}  // namespace jaxator::emulator
