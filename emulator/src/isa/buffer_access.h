/// @file
/// Addresses behind buffer descriptors.
#pragma once

#include "emulator/src/isa/memory_access.h"

namespace jaxator::emulator {

struct BufferDescriptor {
  u64 base;
  u32 stride, records;  // records: bytes where the stride is 0
  BufferDescriptor(const Wave& w, const Operand& operand);
};

/// Where a lane's access begins.
struct BufferAddress {
  BufferDescriptor buffer;
  u64 offset = 0, scalar_offset = 0;
  u32 index = 0;

  BufferAddress(const Wave& w, const Instruction& i, int address, int descriptor, int lane);
  bool in_range(u64 at, int bytes) const;
  u64 address(u64 at) const;
};

/// Fills w.accesses. What is out of range gets an access without memory.
void list_buffer_accesses(Wave& w, const Instruction& i, int address, int descriptor);

}  // namespace jaxator::emulator
