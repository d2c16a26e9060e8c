/// @file
/// Races in LDS.
#include "emulator/src/checks/order.h"
#include "emulator/src/checks/wave_checks.h"

namespace jaxator::emulator {
namespace {

std::string by_wave(const char* what, int wave, const LaunchState& launch, u32 pc) {
  const std::string* text = pc != 0 ? launch.code.text_at(pc) : nullptr;
  return std::string(what) + " of wave " + std::to_string(wave) + (text != nullptr ? " (" + *text + " at " + hex(pc) + ")" : "");
}

}  // namespace

void WaveOrder::lds(Wave& w, const Instruction& i, const AccessList& accesses, Use use, const Counters& counters) {
  GroupChecks& group = *w.group->checks;
  LaunchState& launch = *w.group->launch;
  const Queue queue = i.has(kToLds) ? Queue::vector_memory : Queue::lds;
  const u32 number = counters.next(queue), pc = static_cast<u32>(launch.code.address_of(i.pc));
  const bool writes = use != Use::read, by_fetch = i.has(kToLds);
  const auto report = [&](const std::string& other, const Access& access, u32 other_pc) {
    launch.findings.add(w, i, Kind::lds_race,
                        (writes ? "writes" : "reads") + std::string(" bytes ") + std::to_string(access.address) + ".." +
                            std::to_string(access.address + access.bytes - 1) + " of LDS, and nothing orders it after the " +
                            other,
                        access.lane, other_pc);
  };
  const auto ordered_after_write = [&](const LdsCell& cell) {
    if (cell.wave < 0) return true;
    if (use == Use::atomic && cell.atomic) return true;
    if (cell.wave != w.id) return sees(w, cell.wave, cell.queue, cell.number);
    return cell.queue == Queue::lds ? !by_fetch || counters.completed().of(Queue::lds) >= cell.number
                                    : counters.completed().of(Queue::vector_memory) >= cell.number;
  };
  for (const Access& access : accesses) {
    if (access.space != Space::lds) continue;
    group.fit_lds_cells(access.address, access.bytes);
    bool told = false;
    for (u64 cell = access.address >> group.lds_shift; cell < (access.address + access.bytes) >> group.lds_shift; cell++) {
      LdsCell& last = group.lds_writes[cell];
      if (!told && !ordered_after_write(last))
        report(by_wave(last.queue == Queue::lds ? "write" : "fetch", last.wave, launch, last.pc), access, last.pc), told = true;
      for (size_t v = 0; writes && !told && v < group.lds_reads.size(); v++) {
        const u32 read = group.lds_reads[v][cell];
        const bool own = static_cast<int>(v) == w.id;
        if (read == 0 ||
            (own ? !by_fetch || counters.completed().of(Queue::lds) >= read : sees(w, static_cast<int>(v), Queue::lds, read)))
          continue;
        report(by_wave("read", static_cast<int>(v), launch, 0), access, 0), told = true;
      }
      if (use == Use::read) group.lds_reads[static_cast<size_t>(w.id)][cell] = number;
      if (writes) last = {number, pc, static_cast<i16>(w.id), queue, use == Use::atomic};
    }
    if (use == Use::atomic) meet(w, access.address, i.returns, true, counters);
  }
}

bool WaveOrder::sees(const Wave& w, int other, Queue queue, u32 number) const {
  const size_t v = static_cast<size_t>(other);
  return w.group->checks->visible(other, queue, number) || (v < seen_.size() && seen_[v].of(queue) >= number);
}

void WaveOrder::meet(Wave& w, u64 address, bool acquires, bool releases, const Counters& counters) {
  GroupChecks& group = *w.group->checks;
  const size_t waves = group.visible().size();
  seen_.resize(waves);
  std::vector<Progress>& told = group.told[address];
  told.resize(waves);
  for (size_t v = 0; acquires && v < waves; v++) seen_[v].join(told[v]);
  for (size_t v = 0; releases && v < waves; v++) {
    told[v].join(group.visible()[v]);
    told[v].join(seen_[v]);
  }
  if (releases) told[static_cast<size_t>(w.id)].join(counters.completed());
}

}  // namespace jaxator::emulator
