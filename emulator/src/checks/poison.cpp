#include "emulator/src/checks/poison.h"

#include "emulator/src/checks/trial.h"
#include "emulator/src/checks/wave_checks.h"

namespace jaxator::emulator {
namespace {

bool is_memory(const Instruction& i) {
  return i.unit == Class::vector_memory || i.unit == Class::flat || i.unit == Class::lds ||
         (i.unit == Class::scalar_memory && i.has(kLoad));
}

/// Operands that a store or an atomic operation takes data from.
bool is_data(const Instruction& i, int operand) {
  const bool buffer = i.detail.space == Space::buffer;
  if (i.has(kAtomic)) {
    if (buffer) return operand == 0;
    const int first = i.returns ? 2 : 1;
    return operand == first || (i.unit == Class::lds && operand == first + 1);
  }
  if (!i.has(kStore)) return false;
  if (i.unit == Class::lds && i.has(kReadsM0)) return operand == 0;
  return buffer ? operand == 0 : operand == 1 || (i.unit == Class::lds && operand == 2);
}

bool is_result(const Instruction& i, int operand) {
  return operand == 0 && !i.has(kNoResult) && !i.has(kToLds) && (!i.has(kAtomic) || i.returns);
}

std::string register_name(const Operand& o) {
  const bool accumulator = o.is_vector() && o.index >= kFirstAccumulator;
  return (!o.is_vector() ? "s" : accumulator ? "a" : "v") + std::to_string(accumulator ? o.index - kFirstAccumulator : o.index);
}

}  // namespace

Poison::Poison() : vector_(std::make_unique_for_overwrite<LaneRegister[]>(kVectorRegisters)) {}

void Poison::start(const Wave& wave, int defined_scalars) {
  const KernelInfo& info = wave.group->launch->kernel.info;
  memset(vector_.get(), 0xFF, info.vector_registers * sizeof(LaneRegister));
  memset(vector_.get() + kFirstAccumulator, 0xFF, info.accumulation_registers * sizeof(LaneRegister));
  for (u64& lanes : lanes_) lanes = kAllLanes;
  lanes_[0] = ~wave.exec();
  for (int l = 0; l < kLanes; l++) vector_[0][l] = lane_in(wave.exec(), l) ? 0 : ~0u;
  for (int r = 0; r < kScalarRegisters; r++) scalar_[r] = r < defined_scalars || (r >= kTrapTemporary && r < kM0) ? 0 : ~0u;
  for (int r : {int{kFlatScratch}, kFlatScratch + 1, int{kExec}, kExec + 1}) scalar_[r] = 0;
  for (int r = kSharedBase; r < kScc; r++) scalar_[r] = 0;
  scratch_.assign(wave.scratch.size(), 0xFF);
}

void Poison::report(Wave& w, const Instruction& i, const std::string& what, int lane) {
  w.group->launch->findings.add(w, i, Kind::uninitialised, what, lane);
}

void Poison::execute(Wave& w, const Instruction& i) {
  if (is_memory(i)) {
    check_addresses(w, i);
    i.execute(w, i);
  } else if (touches_marks(w, i)) {
    execute_in_trials(w, i);
  } else {
    i.execute(w, i);
  }
}

bool Poison::touches_marks(const Wave& w, const Instruction& i) const {
  // A lane's result depends on that lane alone, but for the exceptions; lanes that are not active keep their marks.
  const u64 lanes = i.has(kCrossLane) || i.has(kIgnoresExec) ? kAllLanes : w.exec();
  u64 marked = 0;
  u32 scalar_marked = 0;
  for (const auto* ranges : {&i.sources, &i.results})
    for (const RegisterRange& range : *ranges)
      for (int k = 0; k < range.count; k++) {
        if (range.is_vector)
          marked |= lanes_[range.first + k];
        else
          scalar_marked |= scalar_[range.first + k];
      }
  return (marked & lanes) != 0 || scalar_marked != 0;
}

void Poison::count_lanes(const RegisterRange& range) {
  for (int k = 0; range.is_vector && k < range.count; k++) {
    u64 lanes = 0;
    for (int l = 0; l < kLanes; l++) lanes |= u64{vector_[range.first + k][l] != 0} << l;
    lanes_[range.first + k] = lanes;
  }
}

void Poison::execute_in_trials(Wave& w, const Instruction& i) {
  Trial trial(w, i, vector_.get(), scalar_);
  trial.run_all(w, i);
  for (const RegisterRange& range : i.results) count_lanes(range);
  if (trial.branches_differ) report(w, i, "a branch depends on an uninitialised value");
  if ((scalar_[kExec] | scalar_[kExec + 1]) == 0) return;
  report(w, i, "EXEC depends on an uninitialised value");
  scalar_[kExec] = scalar_[kExec + 1] = 0;
}

void Poison::check_addresses(Wave& w, const Instruction& i) {
  const u64 exec = w.exec();
  for (int k = 0; k < i.operand_count; k++) {
    const Operand& o = i.operand(k);
    if (is_result(i, k) || is_data(i, k)) continue;
    for (int r = 0; r < o.registers; r++) {
      if (o.is_vector() && (lanes_[o.index + r] & exec) != 0)
        return report(w, i, "an address depends on " + register_name(o) + ", which is uninitialised",
                      std::countr_zero(lanes_[o.index + r] & exec));
      if (o.is_scalar() && scalar_[o.index + r] != 0)
        return report(w, i, "an address depends on " + register_name(o) + ", which is uninitialised");
    }
  }
  if ((i.has(kReadsM0) || i.has(kToLds)) && scalar_[kM0] != 0) report(w, i, "an address depends on M0, which is uninitialised");
}

// ---- memory ----------------------------------------------------------------------------------------------------------

void Poison::read_marks(const Wave& w, const Access& access, u8* marks) const {
  switch (access.space) {
    case Space::lds:
      memcpy(marks, &w.group->checks->lds_poison[access.address], access.bytes);
      return;
    case Space::scratch:
      memcpy(marks, &scratch_[access.address], access.bytes);
      return;
    default:
      return read_poison(*access.allocation, access.address, access.bytes, marks);
  }
}

void Poison::write_marks(Wave& w, const Access& access, const u8* marks) {
  switch (access.space) {
    case Space::lds:
      memcpy(&w.group->checks->lds_poison[access.address], marks, access.bytes);
      return;
    case Space::scratch:
      memcpy(&scratch_[access.address], marks, access.bytes);
      return;
    default:
      return write_poison(*access.allocation, access.address, access.bytes, marks);
  }
}

bool Poison::collect_marks(const Wave& w, const AccessList& accesses, LaneValues& marks) const {
  u8 any = 0;
  for (const Access& access : accesses) {
    u8* to = marks.at[access.lane] + access.at;
    if (access.data == nullptr ||
        (access.allocation != nullptr && !access.allocation->may_hold_poison.load(std::memory_order_relaxed))) {
      memset(to, 0, access.bytes);
      continue;
    }
    read_marks(w, access, to);
    for (int k = 0; k < access.bytes; k++) any |= to[k];
  }
  return any != 0;
}

void Poison::loaded(Wave& w, const Instruction& i, u64 lanes, Deliver deliver) {
  LaneValues marks;
  const bool any = collect_marks(w, w.accesses, marks);
  u64 before = 0;
  for (const RegisterRange& range : i.results)
    for (int k = 0; k < range.count; k++) before |= lanes_[range.first + k];
  if (!any && (before & lanes) == 0) return;
  deliver(vector_.get(), i, lanes, marks);
  for (const RegisterRange& range : i.results) count_lanes(range);
}

void Poison::loaded_scalars(Wave& w, const Instruction& i) {
  for (const RegisterRange& range : i.results)
    for (int k = 0; !range.is_vector && k < range.count; k++) scalar_[range.first + k] = 0;
  for (const Access& access : w.accesses)
    if (access.allocation->may_hold_poison.load(std::memory_order_relaxed))
      read_marks(w, access, reinterpret_cast<u8*>(&scalar_[i.operand(0).index]));
}

void Poison::stored(Wave& w, const Instruction& i, u64 lanes, Collect collect) {
  LaneValues marks;
  collect(vector_.get(), i, lanes, marks);
  for (const Access& access : w.accesses) {
    if (access.data == nullptr) continue;
    const u8* from = marks.at[access.lane] + access.at;
    u8 any = 0;
    for (int k = 0; k < access.bytes; k++) any |= from[k];
    if (access.space == Space::global && any != 0)
      report(w, i, "an uninitialised value is stored to " + access.allocation->name, access.lane);
    if (access.space == Space::global && any == 0 && !access.allocation->may_hold_poison.load(std::memory_order_relaxed))
      continue;
    write_marks(w, access, from);
  }
}

void Poison::fetched(Wave& w, const Instruction&) {
  LaneValues marks;
  collect_marks(w, w.accesses, marks);
  for (const Access& access : w.lds_accesses) write_marks(w, access, marks.at[access.lane] + access.at);
}

void Poison::updated(Wave& w, const Instruction& i, u64 lanes, AtomicSource source) {
  LaneValues marks;
  const bool any = collect_marks(w, w.accesses, marks);
  if (i.returns) {
    deliver_value(vector_.get(), i, lanes, marks);
    for (const RegisterRange& range : i.results) count_lanes(range);
  }
  u64 data_lanes = 0;
  for (int k = 0; k < i.operand_count; k++)
    for (int r = 0; i.operand(k).is_vector() && is_data(i, k) && r < i.operand(k).registers; r++)
      data_lanes |= lanes_[i.operand(k).index + r];
  if (!any && (data_lanes & lanes) == 0) return;
  for (const Access& access : w.accesses) {
    if (access.data == nullptr) continue;
    const AtomicData data = source(vector_.get(), i, access.lane);
    u8* memory = marks.at[access.lane] + access.at;
    // Carries and comparisons spread a mark over the whole value.
    u8 marked = data.value != 0 || data.other != 0 ? 0xFF : 0;
    for (int k = 0; k < access.bytes; k++) marked |= memory[k] != 0 ? 0xFF : 0;
    if (access.space == Space::global && (data.value != 0 || data.other != 0))
      report(w, i, "an uninitialised value is stored to " + access.allocation->name, access.lane);
    memset(memory, marked, access.bytes);
    write_marks(w, access, memory);
  }
}

}  // namespace jaxator::emulator
