#include "emulator/src/machine/memory_map.h"

namespace jaxator::emulator {

void MemoryMap::add(std::shared_ptr<Allocation> allocation) {
  const auto next = std::upper_bound(all_.begin(), all_.end(), allocation->begin,
                                     [](u64 a, const std::shared_ptr<Allocation>& other) { return a < other->begin; });
  const bool overlaps_next = next != all_.end() && (*next)->begin < allocation->end;
  const bool overlaps_last = next != all_.begin() && (*(next - 1))->end > allocation->begin;
  if (overlaps_next || overlaps_last)
    fail("memory ", allocation->name, " of ", allocation->size(), " bytes overlaps ",
         (overlaps_next ? *next : *(next - 1))->name);
  all_.insert(next, std::move(allocation));
}

void MemoryMap::remove(u64 begin) {
  for (auto at = all_.begin(); at != all_.end(); ++at) {
    if ((*at)->begin != begin) continue;
    all_.erase(at);
    return;
  }
  fail("no memory of the device begins at ", hex(begin));
}

// Waves of several threads may touch the same bytes; each byte alone is enough.
void read_poison(const Allocation& allocation, u64 address, u64 bytes, u8* poison) {
  u8* at = allocation.poison.data() + (address - allocation.begin);
  for (u64 k = 0; k < bytes; k++) poison[k] = std::atomic_ref(at[k]).load(std::memory_order_relaxed) ^ allocation.background;
}

void write_poison(Allocation& allocation, u64 address, u64 bytes, const u8* poison) {
  u8* at = allocation.poison.data() + (address - allocation.begin);
  for (u64 k = 0; k < bytes; k++) {
    const u8 stored = poison[k] ^ allocation.background;
    if (std::atomic_ref(at[k]).load(std::memory_order_relaxed) == stored) continue;
    std::atomic_ref(at[k]).store(stored, std::memory_order_relaxed);
    if (poison[k] != 0) allocation.may_hold_poison.store(true, std::memory_order_relaxed);
  }
}

}  // namespace jaxator::emulator
