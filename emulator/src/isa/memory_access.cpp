#include "emulator/src/isa/memory_access.h"

#include <atomic>

#include "emulator/src/checks/wave_checks.h"

namespace jaxator::emulator {
namespace {

/// An access that overlaps memory of the device, or the nearest one before it, says so.
std::string describe(const MemoryMap& memory, u64 address) {
  const Allocation* before = memory.before(address);
  if (before == nullptr) return "address " + hex(address) + ", below all memory of the device";
  return "address " + hex(address) + ", byte " + std::to_string(address - before->begin) + " of " + before->name + " (" +
         std::to_string(before->size()) + " bytes)";
}

template <class T> void copy_words(u8* to, const u8* from, int bytes, bool from_shared) {
  for (int k = 0; k < bytes; k += static_cast<int>(sizeof(T))) {
    T* shared = reinterpret_cast<T*>(from_shared ? const_cast<u8*>(from) + k : to + k);
    T value;
    if (from_shared) {
      value = std::atomic_ref<T>(*shared).load(std::memory_order_relaxed);
      memcpy(to + k, &value, sizeof value);
    } else {
      memcpy(&value, from + k, sizeof value);
      std::atomic_ref<T>(*shared).store(value, std::memory_order_relaxed);
    }
  }
}

void copy_shared(u8* to, const u8* from, int bytes, bool from_shared) {
  const u64 place = reinterpret_cast<u64>(from_shared ? from : to) | static_cast<u64>(bytes);
  if (place % 4 == 0)
    copy_words<u32>(to, from, bytes, from_shared);
  else if (place % 2 == 0)
    copy_words<u16>(to, from, bytes, from_shared);
  else
    copy_words<u8>(to, from, bytes, from_shared);
}

void read_access(const Access& access, u8* to) {
  if (access.data == nullptr)
    memset(to, 0, access.bytes);
  else if (access.space == Space::global)
    copy_from_shared(to, access.data, access.bytes);
  else
    memcpy(to, access.data, access.bytes);
}

void write_access(const Access& access, const u8* from) {
  if (access.data == nullptr) return;
  if (access.space == Space::global)
    copy_to_shared(access.data, from, access.bytes);
  else
    memcpy(access.data, from, access.bytes);
}

}  // namespace

Access lds_access(Wave& w, u64 offset, int bytes, int lane, int at) {
  std::vector<u8>& lds = w.group->lds;
  if (offset > lds.size() || static_cast<u64>(bytes) > lds.size() - offset)
    throw Fault{
        Kind::out_of_bounds,
        std::to_string(bytes) + " bytes at offset " + std::to_string(offset) + " of LDS, which has " + std::to_string(lds.size()),
        lane};
  return {lds.data() + offset, offset, nullptr, Space::lds, static_cast<u8>(lane), static_cast<u8>(bytes), static_cast<u8>(at)};
}

Access scratch_access(Wave& w, u64 offset, int bytes, int lane, int at) {
  if (offset > w.scratch_bytes || static_cast<u64>(bytes) > w.scratch_bytes - offset)
    throw Fault{Kind::out_of_bounds,
                std::to_string(bytes) + " bytes at offset " + std::to_string(offset) + " of the lane's scratch, which has " +
                    std::to_string(w.scratch_bytes),
                lane};
  const u64 place = u64{w.scratch_bytes} * static_cast<u64>(lane) + offset;
  return {w.scratch.data() + place, place, nullptr, Space::scratch, static_cast<u8>(lane), static_cast<u8>(bytes),
          static_cast<u8>(at)};
}

Access global_access(Wave& w, u64 address, int bytes, int lane, int at) {
  MemoryMap& memory = w.group->launch->memory;
  Allocation* allocation = memory.find(address, static_cast<u64>(bytes));
  if (allocation == nullptr)
    throw Fault{Kind::out_of_bounds, std::to_string(bytes) + " bytes at " + describe(memory, address), lane};
  return {reinterpret_cast<u8*>(address),
          address,
          allocation,
          Space::global,
          static_cast<u8>(lane),
          static_cast<u8>(bytes),
          static_cast<u8>(at)};
}

Access flat_access(Wave& w, u64 address, int bytes, int lane, int at) {
  if (address >> 32 == kSharedAperture) return lds_access(w, static_cast<u32>(address), bytes, lane, at);
  if (address >> 32 == kPrivateAperture) return scratch_access(w, static_cast<u32>(address), bytes, lane, at);
  return global_access(w, address, bytes, lane, at);
}

void copy_from_shared(u8* to, const u8* from, int bytes) { copy_shared(to, from, bytes, true); }
void copy_to_shared(u8* to, const u8* from, int bytes) { copy_shared(to, from, bytes, false); }

void perform_load(Wave& w, const Instruction& i, u64 lanes, Deliver deliver) {
  LaneValues values;
  for (const Access& access : w.accesses) read_access(access, values.at[access.lane] + access.at);
  deliver(w.vector, i, lanes, values);
  if (w.checks != nullptr) w.checks->loaded(w, i, lanes, deliver);
}

void perform_store(Wave& w, const Instruction& i, u64 lanes, Collect collect) {
  LaneValues values;
  collect(w.vector, i, lanes, values);
  for (const Access& access : w.accesses) write_access(access, values.at[access.lane] + access.at);
  if (w.checks != nullptr) w.checks->stored(w, i, lanes, collect);
}

void perform_fetch_to_lds(Wave& w, const Instruction& i) {
  LaneValues values;
  for (const Access& access : w.accesses) read_access(access, values.at[access.lane] + access.at);
  for (const Access& access : w.lds_accesses) write_access(access, values.at[access.lane] + access.at);
  if (w.checks != nullptr) w.checks->fetched(w, i);
}

void deliver_value(Plane* plane, const Instruction& i, u64 lanes, const LaneValues& values) {
  const int index = i.operand(0).index, bytes = i.detail.bytes;
  for (int l = 0; l < kLanes; l++) {
    if (!lane_in(lanes, l)) continue;
    if (bytes >= 4) {
      for (int k = 0; k < bytes / 4; k++) memcpy(&plane[index + k][l], values.at[l] + 4 * k, 4);
      continue;
    }
    u32 value = 0;
    memcpy(&value, values.at[l], bytes);
    if (i.detail.is_signed) value = static_cast<u32>(sign_extend(value, 8 * bytes));
    u32& to = plane[index][l];
    if (!i.detail.half)
      to = value;
    else
      to = i.detail.high ? (to & 0xFFFF) | value << 16 : (to & 0xFFFF0000) | (value & 0xFFFF);
  }
}

}  // namespace jaxator::emulator
