#include "emulator/src/checks/counters.h"

#include <algorithm>

namespace jaxator::emulator {
namespace {

// The counters' own limits: more operations wait for the oldest.
constexpr size_t kMostVectorMemory = 63, kMostLds = 15;

constexpr Queue kBoth[] = {Queue::vector_memory, Queue::lds};

}  // namespace

void Counters::wait(const Instruction& i) {
  const u32 immediate = i.words[0] & 0xFFFF;
  const u32 vector_memory = (immediate & 15) | (immediate >> 14 & 3) << 4, lds = immediate >> 8 & 15;
  const u32 left[kQueues] = {vector_memory, lds};
  const u32 none[kQueues] = {kMostVectorMemory, kMostLds};
  for (const Queue queue : kBoth) {
    const int q = static_cast<int>(queue);
    const bool in_order = std::all_of(pending_[q].begin(), pending_[q].end(), [](const Pending& p) { return p.in_order; });
    // Operations that may overtake others are known to be done only when all are.
    if (left[q] != none[q] && (in_order || left[q] == 0)) retire(queue, left[q]);
  }
}

void Counters::issue(const Instruction& i) {
  switch (i.unit) {
    case Class::vector_memory:
    case Class::cache:
      return push(Queue::vector_memory, true, i);
    case Class::lds:
    case Class::lds_permute:
      return push(Queue::lds, true, i);
    case Class::scalar_memory:
      return push(Queue::lds, false, i);
    case Class::flat:
      push(Queue::vector_memory, false, i);
      return push(Queue::lds, false, i);
    default:
      return;
  }
}

void Counters::push(Queue queue, bool in_order, const Instruction& i) {
  const int q = static_cast<int>(queue);
  Pending operation{++issued_.at[q], in_order, {true, 0, 0}};
  const bool writes = !i.has(kStore) && !i.has(kToLds) && (!i.has(kAtomic) || i.returns);
  if (writes && !i.results.empty()) operation.result = i.results.front();
  mark(queue, operation.result, 1);
  pending_[q].push_back(operation);
  const size_t most = queue == Queue::lds ? kMostLds : kMostVectorMemory;
  if (pending_[q].size() > most) retire(queue, most);
}

void Counters::retire(Queue queue, size_t left) {
  const int q = static_cast<int>(queue);
  while (pending_[q].size() > left) {
    mark(queue, pending_[q].front().result, -1);
    completed_.at[q] = pending_[q].front().number;
    pending_[q].pop_front();
  }
}

void Counters::mark(Queue queue, const RegisterRange& range, int change) {
  u8* count = range.is_vector ? vector_[static_cast<int>(queue)] : scalar_[static_cast<int>(queue)];
  for (int k = 0; k < range.count; k++) count[range.first + k] = static_cast<u8>(count[range.first + k] + change);
}

void Counters::forget(const RegisterRange& range) {
  for (const Queue queue : kBoth)
    for (Pending& operation : pending_[static_cast<int>(queue)]) {
      RegisterRange& result = operation.result;
      if (result.is_vector != range.is_vector || result.first >= range.first + range.count ||
          range.first >= result.first + result.count)
        continue;
      mark(queue, result, -1);
      result.count = 0;
    }
}

const Queue* Counters::writer_in_flight(const RegisterRange& range, const Queue* except) const {
  for (const Queue& queue : kBoth) {
    if (except != nullptr && *except == queue) continue;
    if (pending_[static_cast<int>(queue)].empty()) continue;
    const u8* count = range.is_vector ? vector_[static_cast<int>(queue)] : scalar_[static_cast<int>(queue)];
    for (int k = 0; k < range.count; k++)
      if (count[range.first + k] != 0) return &queue;
  }
  return nullptr;
}

}  // namespace jaxator::emulator
