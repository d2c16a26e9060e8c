/// @file
/// What a kernel may touch.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "emulator/src/machine/sparse_memory.h"

namespace jaxator::emulator {

/// A range of addresses, and which of its bits hold something that nobody wrote.
struct Allocation {
  u64 begin, end;
  std::string name;
  SparseMemory owned;  // where the device allocated it
  /// One bit a bit. Stored exclusive-or with `background`, so that untouched pages need no memory.
  SparseMemory poison;
  u8 background = 0;  // 0xFF: everything is poison at first
  std::atomic<bool> may_hold_poison{false};

  u64 size() const { return end - begin; }
};

/// Allocations by address. Copied when it changes, so that a launch has its own.
class MemoryMap {
 public:
  /// The allocation that holds all the bytes, or null.
  Allocation* find(u64 address, u64 bytes) const {
    const auto next =
        std::upper_bound(all_.begin(), all_.end(), address,
                         [](u64 a, const std::shared_ptr<Allocation>& allocation) { return a < allocation->begin; });
    if (next == all_.begin()) return nullptr;
    Allocation* allocation = (next - 1)->get();
    return address <= allocation->end && bytes <= allocation->end - address ? allocation : nullptr;
  }
  /// The allocation that ends last before the address, or null: for messages.
  const Allocation* before(u64 address) const {
    const Allocation* last = nullptr;
    for (const auto& allocation : all_)
      if (allocation->begin <= address) last = allocation.get();
    return last;
  }

  /// Throws Error if it overlaps another one.
  void add(std::shared_ptr<Allocation> allocation);
  /// Throws Error if none begins there.
  void remove(u64 begin);
  const std::vector<std::shared_ptr<Allocation>>& all() const { return all_; }

 private:
  std::vector<std::shared_ptr<Allocation>> all_;
};

/// Copies poison bits of [address, address + bytes), which lie within the allocation.
void read_poison(const Allocation& allocation, u64 address, u64 bytes, u8* poison);
void write_poison(Allocation& allocation, u64 address, u64 bytes, const u8* poison);

}  // namespace jaxator::emulator
