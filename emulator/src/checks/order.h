/// @file
/// Races: two accesses to the same bytes, one of them a write, that nothing orders. What orders accesses:
/// - in one wave, the queue: LDS operations take effect in order, and so do those on global memory; a fetch to LDS is done when
/// it
///   was waited for;
/// - between waves of a workgroup: the first was waited for, then both passed a barrier; or after the wait an atomic operation
///   that the other wave's atomic operation on the same address found done;
/// - between workgroups: buffer_wbl2 and a wait, then an atomic operation (or a store with sc1), which the other reads (by an
///   atomic operation or a load with sc1) before buffer_inv.
#pragma once

#include <array>
#include <mutex>
#include <unordered_map>

#include "emulator/src/checks/group_checks.h"

namespace jaxator::emulator {

enum class Use : u8 { read, write, atomic };
enum class Scope : u8 { none, workgroup, device };  // within which an access is atomic

/// Who touched four bytes of global memory last.
struct GlobalCell {
  u32 writer, write_number, write_pc;  // writer 0: none
  u32 reader[2], read_number[2];
  u8 write_mask;  // bytes
  Scope write_scope;
  Queue read_queue[2];
};

/// The cells of all memory of a launch, and the moments that atomic operations published.
class GlobalOrder {
 public:
  explicit GlobalOrder(const MemoryMap& memory);

  std::mutex& lock_of(u64 address) { return locks_[address / kBlock % kLocks].mutex; }
  GlobalCell* cells(const Allocation& allocation, u64 address);

  void publish(u64 address, const Clock& clock);
  void read_published(u64 address, Clock& into);

 private:
  static constexpr u64 kBlock = 256;
  static constexpr size_t kLocks = 1024;
  struct alignas(64) Lock {
    std::mutex mutex;
  };
  std::array<Lock, kLocks> locks_;
  std::unordered_map<const Allocation*, SparseMemory> cells_;
  std::mutex published_mutex_;
  std::unordered_map<u64, Clock> published_;
};

/// A wave's part.
class WaveOrder {
 public:
  /// Checks and records the accesses, as one operation of the queues of the instruction.
  void lds(Wave& wave, const Instruction& instruction, const AccessList& accesses, Use use, const Counters& counters);
  void global(Wave& wave, const Instruction& instruction, const AccessList& accesses, Use use, const Counters& counters);
  /// buffer_wbl2 and buffer_inv, before they are counted.
  void cache(Wave& wave, const Instruction& instruction, const Counters& counters);

  const Clock& acquired() const { return acquired_; }

 private:
  /// Whether an operation of a wave of this workgroup is known to be done.
  bool sees(const Wave& wave, int other, Queue queue, u32 number) const;
  /// An atomic operation: takes what earlier ones on the address told, and tells what this wave knows.
  void meet(Wave& wave, u64 address, bool acquires, bool releases, const Counters& counters);
  void synchronise(Wave& wave, const Instruction& instruction, const AccessList& accesses, Use use, const Counters& counters);

  std::vector<Progress> seen_;  // of the workgroup's waves, by atomic operations; empty before the first
  Clock acquired_, pending_acquire_;
  Clock released_;             // what the last buffer_wbl2 wrote back
  u32 write_back_number_ = 0;  // of it, in Queue::vector_memory
};

}  // namespace jaxator::emulator
