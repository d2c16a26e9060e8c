/// @file
/// What the waves of a workgroup share for the checks.
#pragma once

#include <unordered_map>
#include <vector>

#include "emulator/src/checks/counters.h"
#include "emulator/src/machine/wave.h"

namespace jaxator::emulator {

/// Moments of waves of other workgroups that are known to lie before: by wave, the operations that are done.
class Clock {
 public:
  void join(u32 wave, const Progress& done);
  void join(const Clock& other);
  /// Whether an operation of a wave is known to be done.
  bool covers(u32 wave, Queue queue, u32 number) const;
  bool empty() const { return all_.empty(); }
  void clear() { all_.clear(); }

 private:
  std::vector<std::pair<u32, Progress>> all_;  // by wave
};

/// Who touched a cell of LDS last.
struct LdsCell {
  u32 number = 0, pc = 0;  // of the write; the address in the code object
  i16 wave = -1;
  Queue queue = Queue::lds;
  bool atomic = false;
};

class GroupChecks {
 public:
  GroupChecks(const LaunchState& launch, size_t waves, size_t lds_bytes);

  /// A wave reached the barrier with these operations done. What other workgroups did before `acquired` is passed on.
  void arrive(int wave, const Progress& done, const Clock& acquired);
  /// All waves have: from now on the others may rely on it.
  void pass();

  /// Whether all waves could see at the last barrier that this operation was done.
  bool visible(int wave, Queue queue, u32 number) const { return visible_[static_cast<size_t>(wave)].of(queue) >= number; }
  const std::vector<Progress>& visible() const { return visible_; }
  const Clock& acquired() const { return acquired_; }

  /// What an atomic operation on an address (in LDS an offset) tells the next one: the progress of each wave.
  std::unordered_map<u64, std::vector<Progress>> told;
  std::vector<u8> lds_poison;
  /// Cells are as large as all accesses so far allow, each beginning and ending at the border of one: all bytes of a cell have
  /// the same history. Most kernels touch 4, 8 or 16 aligned bytes at a time, only few single ones.
  int lds_shift = kLdsShift;                // a cell has 1 << shift bytes
  std::vector<LdsCell> lds_writes;          // by cell
  std::vector<std::vector<u32>> lds_reads;  // by wave and cell: number of the last read in Queue::lds
  /// Before an access to these bytes.
  void fit_lds_cells(u64 address, u64 bytes) {
    while (((address | bytes) & ((u64{1} << lds_shift) - 1)) != 0) halve_lds_cells();
  }

 private:
  static constexpr int kLdsShift = 4;
  void halve_lds_cells();

  std::vector<Progress> arrived_, visible_;
  Clock arriving_, acquired_;
};

}  // namespace jaxator::emulator
