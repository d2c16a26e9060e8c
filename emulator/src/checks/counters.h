/// @file
/// The wait counters: memory operations of a wave that have been issued and not been waited for, in the two queues that count
/// them, and the registers they will write.
#pragma once

#include <algorithm>
#include <deque>

#include "emulator/src/decode/instruction.h"

namespace jaxator::emulator {

enum class Queue : u8 { vector_memory, lds };  // vmcnt; lgkmcnt, which also counts scalar memory
inline constexpr int kQueues = 2;

/// Operations of a queue are numbered from 1. Those up to `completed` have been waited for.
struct Progress {
  u32 at[kQueues] = {};
  u32 of(Queue queue) const { return at[static_cast<int>(queue)]; }
  void join(const Progress& other) {
    for (int q = 0; q < kQueues; q++) at[q] = std::max(at[q], other.at[q]);
  }
};

class Counters {
 public:
  /// s_waitcnt.
  void wait(const Instruction& instruction);
  /// Counts an instruction that was executed, if it is a memory operation.
  void issue(const Instruction& instruction);

  /// Number that the next operation of a queue will have.
  u32 next(Queue queue) const { return issued_.of(queue) + 1; }
  const Progress& completed() const { return completed_; }
  const Progress& issued() const { return issued_; }

  /// The queue that will still write to a register of the range, or null. Loads of one queue return in order, so a load may write
  /// what another one of its queue will write first: `except` takes that queue out.
  const Queue* writer_in_flight(const RegisterRange& range, const Queue* except) const;
  /// Takes the registers as written: for one that was reported, so that it is not reported again.
  void forget(const RegisterRange& range);

 private:
  struct Pending {
    u32 number;
    bool in_order;
    RegisterRange result;  // count 0: none
  };

  void push(Queue queue, bool in_order, const Instruction& instruction);
  void retire(Queue queue, size_t left);
  void mark(Queue queue, const RegisterRange& range, int change);

  std::deque<Pending> pending_[kQueues];
  Progress issued_, completed_;
  u8 vector_[kQueues][kVectorRegisters] = {}, scalar_[kQueues][kScalarRegisters] = {};  // operations that will write each
};

}  // namespace jaxator::emulator
