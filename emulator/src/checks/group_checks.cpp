#include "emulator/src/checks/group_checks.h"

#include <algorithm>

#include "emulator/src/machine/launch_state.h"

namespace jaxator::emulator {

void Clock::join(u32 wave, const Progress& done) {
  const auto at = std::lower_bound(all_.begin(), all_.end(), wave, [](const auto& entry, u32 w) { return entry.first < w; });
  if (at == all_.end() || at->first != wave) {
    all_.insert(at, {wave, done});
    return;
  }
  at->second.join(done);
}

void Clock::join(const Clock& other) {
  for (const auto& [wave, done] : other.all_) join(wave, done);
}

bool Clock::covers(u32 wave, Queue queue, u32 number) const {
  const auto at = std::lower_bound(all_.begin(), all_.end(), wave, [](const auto& entry, u32 w) { return entry.first < w; });
  return at != all_.end() && at->first == wave && at->second.of(queue) >= number;
}

namespace {

/// Each one twice.
template <class T> std::vector<T> doubled(const std::vector<T>& all) {
  std::vector<T> out;
  out.reserve(2 * all.size());
  for (const T& one : all) out.insert(out.end(), 2, one);
  return out;
}

}  // namespace

GroupChecks::GroupChecks(const LaunchState& launch, size_t waves, size_t lds_bytes) : arrived_(waves), visible_(waves) {
  if (launch.checks(kPoison)) lds_poison.assign(lds_bytes, 0xFF);
  if (!launch.checks(kRaces)) return;
  const size_t cells = (lds_bytes >> kLdsShift) + 1;
  lds_writes.resize(cells);
  lds_reads.assign(waves, std::vector<u32>(cells, 0));
}

void GroupChecks::halve_lds_cells() {
  lds_shift--;
  lds_writes = doubled(lds_writes);
  for (std::vector<u32>& reads : lds_reads) reads = doubled(reads);
}

void GroupChecks::arrive(int wave, const Progress& done, const Clock& acquired) {
  arrived_[static_cast<size_t>(wave)] = done;
  arriving_.join(acquired);
}

void GroupChecks::pass() {
  visible_ = arrived_;
  acquired_.join(arriving_);
}

}  // namespace jaxator::emulator
