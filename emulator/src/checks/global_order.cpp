/// @file
/// Races in global memory.
#include "emulator/src/checks/order.h"
#include "emulator/src/checks/wave_checks.h"

namespace jaxator::emulator {
namespace {

/// Waves of a launch are numbered from 1.
u32 number_of_wave(const Wave& w, int wave) {
  const LaunchState& launch = *w.group->launch;
  return static_cast<u32>(w.group->index * static_cast<u64>(launch.waves_per_group) + static_cast<u64>(wave) + 1);
}

std::string name_of_wave(u32 number, const LaunchState& launch) {
  const u64 group = (number - 1) / static_cast<u64>(launch.waves_per_group),
            wave = (number - 1) % static_cast<u64>(launch.waves_per_group);
  const Extent& grid = launch.options.grid;
  return "wave " + std::to_string(wave) + " of workgroup (" + std::to_string(group % grid[0]) + "," +
         std::to_string(group / grid[0] % grid[1]) + "," + std::to_string(group / grid[0] / grid[1]) + ")";
}

Scope scope_of(const Instruction& i) { return i.sc1 || i.has(kAtomic) ? Scope::device : i.sc0 ? Scope::workgroup : Scope::none; }

}  // namespace

GlobalOrder::GlobalOrder(const MemoryMap& memory) {
  for (const auto& allocation : memory.all())
    cells_.emplace(allocation.get(), SparseMemory((allocation->size() / 4 + 2) * sizeof(GlobalCell)));
}

GlobalCell* GlobalOrder::cells(const Allocation& allocation, u64 address) {
  // Cells are counted from a multiple of 4, so that bytes of one cell share a word.
  return reinterpret_cast<GlobalCell*>(cells_.at(&allocation).data()) + (address / 4 - allocation.begin / 4);
}

void GlobalOrder::publish(u64 address, const Clock& clock) {
  std::lock_guard lock(published_mutex_);
  published_[address].join(clock);
}

void GlobalOrder::read_published(u64 address, Clock& into) {
  std::lock_guard lock(published_mutex_);
  const auto found = published_.find(address);
  if (found != published_.end()) into.join(found->second);
}

void WaveOrder::global(Wave& w, const Instruction& i, const AccessList& accesses, Use use, const Counters& counters) {
  LaunchState& launch = *w.group->launch;
  const GroupChecks& group = *w.group->checks;
  GlobalOrder& order = *launch.order;
  const u32 me = number_of_wave(w, w.id), first_of_group = number_of_wave(w, 0);
  const Queue queue = i.unit == Class::scalar_memory ? Queue::lds : Queue::vector_memory;
  const u32 number = counters.next(queue), pc = static_cast<u32>(launch.code.address_of(i.pc));
  const Scope scope = scope_of(i);
  const bool writes = use != Use::read;
  const auto in_group = [&](u32 wave) { return wave - first_of_group < static_cast<u32>(launch.waves_per_group); };
  const auto ordered = [&](u32 wave, Queue other_queue, u32 other_number) {
    if (wave == 0 || wave == me) return true;
    if (in_group(wave)) return sees(w, static_cast<int>(wave - first_of_group), other_queue, other_number);
    return acquired_.covers(wave, other_queue, other_number) || group.acquired().covers(wave, other_queue, other_number);
  };
  const auto report = [&](const char* what, u32 wave, u32 other_pc, const Access& access) {
    const std::string* text = other_pc != 0 ? launch.code.text_at(other_pc) : nullptr;
    launch.findings.add(w, i, Kind::global_race,
                        (writes ? "writes" : "reads") + std::string(" byte ") +
                            std::to_string(access.address - access.allocation->begin) + " of " + access.allocation->name +
                            ", and nothing orders it after the " + what + " of " + name_of_wave(wave, launch) +
                            (text != nullptr ? " (" + *text + " at " + hex(other_pc) + ")" : ""),
                        access.lane, other_pc);
  };
  for (const Access& access : accesses) {
    if (access.space != Space::global || access.data == nullptr) continue;
    bool told = false;
    for (u64 at = access.address; at < access.address + access.bytes;) {
      const u64 end = std::min(access.address + access.bytes, at / 4 * 4 + 4);
      const u8 mask = static_cast<u8>(((1u << (end - at)) - 1) << at % 4);
      std::lock_guard lock(order.lock_of(at));
      GlobalCell& cell = *order.cells(*access.allocation, at);
      const Scope both = std::min(scope, cell.write_scope);
      const bool atomic = both == Scope::device || (both == Scope::workgroup && in_group(cell.writer));
      if (!told && (cell.write_mask & mask) != 0 && !atomic && !ordered(cell.writer, Queue::vector_memory, cell.write_number))
        report("write", cell.writer, cell.write_pc, access), told = true;
      for (int k = 0; writes && !told && k < 2; k++)
        if (!ordered(cell.reader[k], cell.read_queue[k], cell.read_number[k]))
          report("read", cell.reader[k], 0, access), told = true;
      if (writes) {
        cell.write_mask = static_cast<u8>(cell.writer == me ? cell.write_mask | mask : mask);
        cell.writer = me, cell.write_number = number, cell.write_pc = pc, cell.write_scope = scope;
      } else if (scope == Scope::none) {
        const int slot = cell.reader[0] == me || ordered(cell.reader[0], cell.read_queue[0], cell.read_number[0]) ? 0 : 1;
        cell.reader[slot] = me, cell.read_queue[slot] = queue, cell.read_number[slot] = number;
      }
      at = end;
    }
  }
  if (scope != Scope::none) synchronise(w, i, accesses, use, counters);
}

void WaveOrder::synchronise(Wave& w, const Instruction& i, const AccessList& accesses, Use use, const Counters& counters) {
  GlobalOrder& order = *w.group->launch->order;
  const bool releases =
      use != Use::read && !released_.empty() && counters.completed().of(Queue::vector_memory) >= write_back_number_;
  const bool acquires = use == Use::read || i.returns;
  for (const Access& access : accesses) {
    if (access.space != Space::global || access.data == nullptr) continue;
    meet(w, access.address, acquires, use != Use::read, counters);
    if (scope_of(i) != Scope::device) continue;
    if (acquires) order.read_published(access.address, pending_acquire_);
    if (releases) order.publish(access.address, released_);
  }
}

void WaveOrder::cache(Wave& w, const Instruction& i, const Counters& counters) {
  const GroupChecks& group = *w.group->checks;
  if (i.name == "buffer_inv") {
    acquired_.join(pending_acquire_);
    return;
  }
  write_back_number_ = counters.next(Queue::vector_memory);
  for (int v = 0; v < w.group->launch->waves_per_group; v++)
    released_.join(number_of_wave(w, v), v == w.id ? counters.issued() : group.visible()[static_cast<size_t>(v)]);
  for (size_t v = 0; v < seen_.size(); v++) released_.join(number_of_wave(w, static_cast<int>(v)), seen_[v]);
  released_.join(acquired_);
  released_.join(group.acquired());
}

}  // namespace jaxator::emulator
