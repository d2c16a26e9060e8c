/// @file
/// Atomic operations on memory.
#pragma once

#include "emulator/src/isa/memory_access.h"

namespace jaxator::emulator {

enum class Atomic : u8 {
  add,
  subtract,
  subtract_reversed,
  increment,
  decrement,
  signed_min,
  signed_max,
  unsigned_min,
  unsigned_max,
  bit_and,
  bit_or,
  bit_xor,
  masked_or,
  exchange,
  compare_exchange,
  add_float,
  min_float,
  max_float,
  compare_exchange_float,
  add_half_pair,
  add_bf16_pair
};

/// What a lane gives to an operation: a value, and what to compare with or the mask.
struct AtomicData {
  u64 value = 0, other = 0;
};
using AtomicSource = AtomicData (*)(const Plane* plane, const Instruction& instruction, int lane);

/// On each access of w.accesses in the order of lanes, i.detail.operation of i.detail.bytes.
void perform_atomic(Wave& w, const Instruction& i, AtomicSource source);

inline u64 atomic_value(const Plane* plane, int index, int bytes, int lane) {
  return bytes == 8 ? join(plane[index][lane], plane[index + 1][lane]) : plane[index][lane];
}

}  // namespace jaxator::emulator
