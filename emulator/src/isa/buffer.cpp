/// @file
/// Buffers: memory behind a descriptor of four scalar registers. What is out of its range reads as 0 and is not written.
#include "emulator/src/isa/buffer_access.h"
#include "emulator/src/isa/memory_widths.h"

namespace jaxator::emulator {

BufferDescriptor::BufferDescriptor(const Wave& w, const Operand& operand) {
  const u32* words = &w.scalar[operand.index];
  base = join(words[0], words[1] & 0xFFFF);
  stride = words[1] >> 16 & 0x3FFF;
  records = words[2];
  if (words[1] >> 31 != 0 || (words[3] >> 23 & 1) != 0)
    throw Fault{Kind::unsupported, "a buffer descriptor that swizzles or adds the lane's number"};
}

BufferAddress::BufferAddress(const Wave& w, const Instruction& i, int address, int descriptor, int lane)
    : buffer(w, i.operand(descriptor)) {
  const Operand& o = i.operand(address);
  int next = o.index;
  if (i.idxen) index = w.vector[next++][lane];
  offset = static_cast<u32>(i.offset);
  if (i.offen) offset += w.vector[next][lane];
  scalar_offset = read_scalar(w, i.operand(descriptor + 1));
}

bool BufferAddress::in_range(u64 at, int bytes) const {
  if (buffer.stride != 0) return index < buffer.records;
  return offset + at + static_cast<u64>(bytes) + scalar_offset <= buffer.records;
}

u64 BufferAddress::address(u64 at) const { return buffer.base + u64{buffer.stride} * index + offset + scalar_offset + at; }

/// Range checks are made for each dword, as in hardware.
void list_buffer_accesses(Wave& w, const Instruction& i, int address, int descriptor) {
  const u64 exec = w.exec();
  const int bytes = i.detail.bytes, step = bytes < 4 ? bytes : 4;
  w.accesses.clear();
  for (int l = 0; l < kLanes; l++) {
    if (!lane_in(exec, l)) continue;
    const BufferAddress lane(w, i, address, descriptor, l);
    if (lane.in_range(static_cast<u64>(bytes - step), step)) {
      w.accesses.add(global_access(w, lane.address(0), bytes, l));
      continue;
    }
    for (int at = 0; at < bytes; at += step) {
      Access access{nullptr, 0, nullptr, Space::global, static_cast<u8>(l), static_cast<u8>(step), static_cast<u8>(at)};
      if (lane.in_range(static_cast<u64>(at), step)) access = global_access(w, lane.address(static_cast<u64>(at)), step, l, at);
      w.accesses.add(access);
    }
  }
}

namespace {

void load(Wave& w, const Instruction& i) {
  if (i.has(kToLds)) {
    list_buffer_accesses(w, i, 0, 1);
    const u64 base = u64{w.scalar[kM0]} + static_cast<u32>(i.offset);
    w.lds_accesses.clear();
    for (const Access& access : w.accesses)
      w.lds_accesses.add(
          lds_access(w, base + u64{access.lane} * i.detail.bytes + access.at, access.bytes, access.lane, access.at));
    perform_fetch_to_lds(w, i);
    return;
  }
  list_buffer_accesses(w, i, 1, 2);
  perform_load(w, i, w.exec(), deliver_value);
}

void store(Wave& w, const Instruction& i) {
  list_buffer_accesses(w, i, 1, 2);
  perform_store(w, i, w.exec(), collect_value<0>);
}

void refuse_narrow_fetch(Instruction& i, Architecture) {
  if (i.has(kToLds) && i.detail.bytes < 4) throw DecodeError("modifier lds of " + i.name + " is not implemented");
}

}  // namespace

void add_buffer(Table& t) {
  for (const Width& width : kLoadWidths)
    t.add(std::string("buffer_load_") + width.name, {.execute = load,
                                                     .unit = Class::vector_memory,
                                                     .traits = kLoad,
                                                     .detail = in_space(width.detail, Space::buffer),
                                                     .prepare = refuse_narrow_fetch});
  for (const Width& width : kStoreWidths)
    t.add(std::string("buffer_store_") + width.name,
          {store, Class::vector_memory, kStore | kNoResult, in_space(width.detail, Space::buffer)});
}

}  // namespace jaxator::emulator
