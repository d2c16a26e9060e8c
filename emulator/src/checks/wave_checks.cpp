#include "emulator/src/checks/wave_checks.h"

#include <algorithm>

#include "emulator/src/checks/banks.h"
#include "emulator/src/machine/launch_state.h"

namespace jaxator::emulator {
namespace {

std::string name_of(const RegisterRange& range) {
  const bool accumulator = range.is_vector && range.first >= kFirstAccumulator;
  const int first = accumulator ? range.first - kFirstAccumulator : range.first;
  const std::string file = !range.is_vector ? "s" : accumulator ? "a" : "v";
  if (range.count == 1) return file + std::to_string(first);
  return file + "[" + std::to_string(first) + ":" + std::to_string(first + range.count - 1) + "]";
}

Use use_of(const Instruction& i) { return i.has(kAtomic) ? Use::atomic : i.has(kStore) ? Use::write : Use::read; }

}  // namespace

void WaveChecks::start(Wave& wave, int defined_scalars) {
  checks_ = wave.group->launch->options.checks;
  traced_ = on(kTrace) && wave.group->index == wave.group->launch->options.traced_workgroup;
  counters_ = Counters();
  order_ = WaveOrder();
  hazards_ = on(kWaits) ? std::make_unique<Hazards>(wave.group->launch->architecture) : nullptr;
  if (!on(kPoison))
    poison_ = nullptr;
  else if (poison_ == nullptr)
    poison_ = std::make_unique<Poison>();
  if (poison_ != nullptr) poison_->start(wave, defined_scalars);
}

void WaveChecks::execute(Wave& w, const Instruction& i) {
  lds_cycles_ = 0;
  if (i.unit == Class::wait) counters_.wait(i);
  if (on(kWaits)) {
    check_waits(w, i);
    hazards_->check(w, i);
  }
  if (poison_ != nullptr)
    poison_->execute(w, i);
  else
    i.execute(w, i);
  if (i.unit == Class::cache && on(kRaces)) order_.cache(w, i, counters_);
  if (i.unit == Class::barrier || w.done) w.group->checks->arrive(w.id, counters_.completed(), order_.acquired());
  if (traced_) trace(w, i);
  counters_.issue(i);
}

void WaveChecks::check_waits(Wave& w, const Instruction& i) {
  const Queue vector_memory = Queue::vector_memory, lds = Queue::lds;
  // Results of one queue arrive in order, so that a load may overwrite what an earlier load of its queue still has to write.
  const bool load = i.has(kLoad) && (i.unit == Class::vector_memory || i.unit == Class::lds);
  const Queue* own = !load ? nullptr : i.unit == Class::lds ? &lds : &vector_memory;
  const auto check = [&](const RegisterRange& range, bool is_result) {
    const bool same_register = load && !i.results.empty() && range.is_vector && range.first == i.results.front().first;
    const Queue* writer = counters_.writer_in_flight(range, is_result || (same_register && i.detail.half) ? own : nullptr);
    if (writer == nullptr) return;
    w.group->launch->findings.add(w, i, Kind::missing_wait,
                                  name_of(range) + (is_result ? " is written" : " is used") +
                                      " while a load into it has not been waited for by " +
                                      (*writer == Queue::lds ? "lgkmcnt" : "vmcnt"));
    counters_.forget(range);
  };
  for (const RegisterRange& range : i.sources) check(range, false);
  for (const RegisterRange& range : i.results) check(range, true);
}

void WaveChecks::count_banks(Wave& w, const Instruction& i, const AccessList& accesses) {
  if (!on(kBanks) && !traced_) return;
  const BankCycles cycles = bank_cycles(w.group->launch->architecture, accesses, !i.has(kStore));
  lds_cycles_ = cycles.taken;
  if (on(kBanks) && cycles.conflict_free != 0) w.group->launch->findings.add_banks(i.pc, cycles.taken, cycles.conflict_free);
}

void WaveChecks::trace(Wave& w, const Instruction& i) {
  Findings& findings = w.group->launch->findings;
  // A permutation passes the crossbar in 2 cycles on gfx942 and 1 on gfx950.
  if (i.unit == Class::lds_permute) lds_cycles_ = is_gfx950(w) ? 1 : 2;
  TraceStep step{static_cast<u32>(w.group->launch->code.address_of(i.pc)), static_cast<u32>(w.id), lds_cycles_};
  if (i.unit == Class::vector_memory || i.unit == Class::flat || i.unit == Class::lds) {
    const auto touch = [&](const Access& access) {
      if (access.data == nullptr || access.space == Space::scratch) return;
      const Span span{access.address, access.address + access.bytes};
      Span& all = access.space == Space::lds ? step.lds : step.global;
      all = all.end == 0 ? span : Span{std::min(all.begin, span.begin), std::max(all.end, span.end)};
      if (access.space == Space::lds) return;
      step.global_bytes += access.bytes;
      if (i.has(kLoad) || i.has(kToLds)) findings.loaded.push_back(span);
      if (i.has(kStore)) findings.stored.push_back(span);
    };
    for (const Access& access : w.accesses) touch(access);
    if (i.has(kToLds))
      for (const Access& access : w.lds_accesses) touch(access);
  }
  findings.trace.push_back(step);
}

void WaveChecks::loaded(Wave& w, const Instruction& i, u64 lanes, Deliver deliver) {
  if (i.unit == Class::lds) count_banks(w, i, w.accesses);
  if (on(kRaces)) {
    order_.lds(w, i, w.accesses, Use::read, counters_);
    order_.global(w, i, w.accesses, Use::read, counters_);
  }
  if (poison_ != nullptr) poison_->loaded(w, i, lanes, deliver);
}

void WaveChecks::loaded_scalars(Wave& w, const Instruction& i) {
  if (on(kRaces)) order_.global(w, i, w.accesses, Use::read, counters_);
  if (poison_ != nullptr) poison_->loaded_scalars(w, i);
}

void WaveChecks::stored(Wave& w, const Instruction& i, u64 lanes, Collect collect) {
  if (i.unit == Class::lds) count_banks(w, i, w.accesses);
  if (on(kRaces)) {
    order_.lds(w, i, w.accesses, use_of(i), counters_);
    order_.global(w, i, w.accesses, use_of(i), counters_);
  }
  if (poison_ != nullptr) poison_->stored(w, i, lanes, collect);
}

void WaveChecks::fetched(Wave& w, const Instruction& i) {
  if (on(kRaces)) {
    order_.global(w, i, w.accesses, Use::read, counters_);
    order_.lds(w, i, w.lds_accesses, Use::write, counters_);
  }
  if (poison_ != nullptr) poison_->fetched(w, i);
}

void WaveChecks::updated(Wave& w, const Instruction& i, u64 lanes, AtomicSource source) {
  if (i.unit == Class::lds) count_banks(w, i, w.accesses);
  if (on(kRaces)) {
    order_.lds(w, i, w.accesses, Use::atomic, counters_);
    order_.global(w, i, w.accesses, Use::atomic, counters_);
  }
  if (poison_ != nullptr) poison_->updated(w, i, lanes, source);
}

}  // namespace jaxator::emulator
