#include "emulator/src/machine/group_run.h"

#include <algorithm>

#include "emulator/src/checks/coverage.h"
#include "emulator/src/checks/wave_checks.h"
#include "emulator/src/decode/decode.h"

namespace jaxator::emulator {
namespace {

constexpr u32 kUnwritten = 0xCDCDCDCD;  // what registers hold that nobody wrote
constexpr int kLongestSlice = 4096;     // instructions, where none of them changes the wave
constexpr u32 kMostPoints = 8;          // such instructions that a wave may pass before another goes on
constexpr int kMostPolls = 256;         // accesses of a run by which waves may be waiting for another workgroup
/// With arguments in registers, hardware enters behind code that loads them for older firmware.
constexpr u64 kPreloadPrologueBytes = 256;
constexpr u64 kBarrierBytes = 4;  // waves at a barrier have their program counter behind it

u64 mix(u64 a) {
  a += 0x9E3779B97F4A7C15;
  a = (a ^ a >> 30) * 0xBF58476D1CE4E5B9;
  a = (a ^ a >> 27) * 0x94D049BB133111EB;
  return a ^ a >> 31;
}

/// Where another wave may go on: everything by which waves can notice each other.
bool is_switching_point(const Instruction& i) {
  switch (i.unit) {
    case Class::vector_alu:
    case Class::matrix:
    case Class::scalar_alu:
    case Class::branch:
      return false;
    default:
      return true;
  }
}

/// An access that other workgroups' writes can change from one time to the next: a wave that waits for one has many of them.
bool is_poll(const Instruction& i) {
  return (i.sc0 || i.sc1) && !i.has(kStore) && (i.unit == Class::vector_memory || i.unit == Class::flat);
}

/// The instruction with vector registers counted from M0 on.
Instruction indexed(const Wave& w, const Instruction& i) {
  Instruction shifted = i;
  const int first_source = i.has(kTwoResults) ? 2 : 1;
  for (int k = 0; k < i.operand_count; k++) {
    const bool is_result = k < first_source && !i.has(kNoResult);
    const int bit = is_result ? 8 : k >= first_source && k - first_source < 3 ? 1 << (k - first_source) : 0;
    Operand& operand = shifted.operands[k];
    if ((w.index_mode & bit) == 0 || !operand.is_vector()) continue;
    const u32 index = operand.index + (w.scalar[kM0] & 255);
    if (index + operand.registers > kVectorRegisters)
      throw Fault{Kind::out_of_bounds, "vector register " + std::to_string(index) + " by index"};
    operand.index = static_cast<u16>(index);
  }
  derive_registers(shifted);
  return shifted;
}

void check_registers(const Wave& w, const Instruction& i) {
  const KernelInfo& info = w.group->launch->kernel.info;
  if (i.top_vector > info.vector_registers)
    throw Fault{Kind::out_of_bounds, "v" + std::to_string(i.top_vector - 1) + " of a kernel that has " +
                                         std::to_string(info.vector_registers) + " vector registers"};
  if (i.top_accumulator > info.accumulation_registers)
    throw Fault{Kind::out_of_bounds, "a" + std::to_string(i.top_accumulator - 1) + " of a kernel that has " +
                                         std::to_string(info.accumulation_registers) + " accumulation registers"};
}

void execute(Wave& w, const Instruction& i) {
  if (w.checks != nullptr)
    w.checks->execute(w, i);
  else
    i.execute(w, i);
}

void step(Wave& w, const Instruction& i) {
  w.next_pc = w.pc + i.size;
  check_registers(w, i);
  if (w.index_mode != 0 && (i.unit == Class::vector_alu || i.unit == Class::matrix)) {
    execute(w, indexed(w, i));
  } else {
    execute(w, i);
  }
  w.pc = w.next_pc;
  w.executed++;
}

}  // namespace

GroupRun::GroupRun(LaunchState& launch, u64 index, SpareWaves& spare) : launch_(launch) {
  const LaunchOptions& options = launch.options;
  const u32 threads = static_cast<u32>(options.block.count());
  group_.launch = &launch;
  group_.index = index;
  group_.id[0] = static_cast<u32>(index % options.grid.x);
  group_.id[1] = static_cast<u32>(index / options.grid.x % options.grid.y);
  group_.id[2] = static_cast<u32>(index / options.grid.x / options.grid.y);
  group_.lds.assign(launch.lds_bytes, kUnwritten & 255);
  group_.random = mix(options.seed ^ mix(index));
  if ((options.checks & ~(kTrace | kCoverage)) != 0 || (launch.checks(kTrace) && index == options.traced_workgroup))
    group_.checks = std::make_unique<GroupChecks>(launch, (threads + kLanes - 1) / kLanes, group_.lds.size());
  for (u32 first = 0; first < threads; first += kLanes) {
    if (spare.empty()) {
      group_.waves.push_back(std::make_unique<Wave>());
    } else {
      group_.waves.push_back(std::move(spare.back()));
      spare.pop_back();
    }
    set_up(*group_.waves.back(), first, std::min<u32>(kLanes, threads - first));
  }
}

void GroupRun::set_up(Wave& w, u32 first_thread, u32 threads) {
  const KernelDescriptor& kernel = launch_.kernel;
  const Extent& block = launch_.options.block;
  const auto clear = [&](int first, u32 count) { std::fill_n(&w.vector[first][0], count * kLanes, kUnwritten); };
  clear(0, kernel.info.vector_registers);
  clear(kFirstAccumulator, kernel.info.accumulation_registers);
  std::fill_n(w.scalar, kScalarRegisters, kUnwritten);
  w.group = &group_;
  w.id = static_cast<int>(first_thread) / kLanes;
  w.executed = 0, w.barriers = 0, w.index_mode = 0, w.done = false, w.at_barrier = false;
  w.mode = kernel.rsrc1 >> 12 & 0xFF;
  if ((kernel.rsrc1 >> 21 & 1) != 0) w.mode |= kDx10Clamp;
  if ((kernel.rsrc1 >> 23 & 1) != 0) w.mode |= kIeee;
  w.set_exec(low_lanes(static_cast<int>(threads)));
  w.set_scc(false);
  w.set_scalar64(kVcc, 0);
  w.set_scalar64(kFlatScratch, 0);
  w.scalar[kM0] = 0;
  for (u32 l = 0; l < threads; l++) {
    const u32 t = first_thread + l;
    w.vector[0][l] = t % block[0] | t / block[0] % block[1] << 10 | t / (block[0] * block[1]) << 20;
  }
  w.scratch_bytes = kernel.info.scratch_bytes;
  w.scratch.assign(u64{w.scratch_bytes} * kLanes, kUnwritten & 255);
  w.pc = reinterpret_cast<u64>(launch_.code.base) + kernel.entry + (kernel.preload_words != 0 ? kPreloadPrologueBytes : 0);
  const int scalars = set_up_scalars(w);
  if (group_.checks == nullptr)
    w.checks = nullptr;
  else if (w.checks == nullptr)
    w.checks = std::make_unique<WaveChecks>();
  if (w.checks != nullptr) w.checks->start(w, scalars);
}

/// User scalars in the order of the kernel descriptor's properties, then the workgroup's numbers. Returns how many there are.
int GroupRun::set_up_scalars(Wave& w) {
  enum Property { kPrivateBuffer, kDispatchPacket, kQueue, kArguments, kDispatchId, kFlatScratchInit, kPrivateSize };
  const KernelDescriptor& kernel = launch_.kernel;
  int next = 0;
  const auto put64 = [&](u64 value) {
    w.set_scalar64(next, value);
    next += 2;
  };
  if (kernel.has(kPrivateBuffer)) put64(0), put64(0);
  if (kernel.has(kDispatchPacket)) put64(launch_.packet);
  if (kernel.has(kQueue)) put64(0);
  if (kernel.has(kArguments)) put64(launch_.arguments);
  if (kernel.has(kDispatchId)) put64(0);
  if (kernel.has(kFlatScratchInit)) put64(0);
  if (kernel.has(kPrivateSize)) w.scalar[next++] = kernel.info.scratch_bytes;
  const u32* arguments = reinterpret_cast<const u32*>(launch_.arguments);
  for (int k = 0; k < kernel.preload_words; k++) w.scalar[next++] = arguments[kernel.preload_offset + k];
  next = std::max<int>(next, kernel.rsrc2 >> 1 & 31);
  for (int axis = 0; axis < 3; axis++)
    if ((kernel.rsrc2 >> (7 + axis) & 1) != 0) w.scalar[next++] = group_.id[axis];
  if ((kernel.rsrc2 >> 10 & 1) != 0) w.scalar[next++] = 0;
  return next;
}

u32 GroupRun::random(u32 below) {
  group_.random ^= group_.random << 13;
  group_.random ^= group_.random >> 7;
  group_.random ^= group_.random << 17;
  return static_cast<u32>((group_.random >> 32) * below >> 32);
}

void GroupRun::run_slice(Wave& w) {
  u32 points = 1 + random(kMostPoints);
  for (int n = 0; n < kLongestSlice; n++) {
    const Instruction* instruction = nullptr;
    try {
      instruction = &launch_.code.at(w.pc);
      if (launch_.coverage != nullptr) launch_.coverage->mark(w.pc);
      step(w, *instruction);
    } catch (const Fault& fault) {
      launch_.findings.add(w, *instruction, fault.kind, fault.message, fault.lane);
      throw LaunchEnded();
    } catch (const DecodeError& error) {
      launch_.findings.add_at(w, w.pc, Kind::unknown_instruction, error.what());
      throw LaunchEnded();
    }
    budget_left_ -= budget_left_ > 0;
    polls_ += is_poll(*instruction);
    if (w.done || w.at_barrier) return;
    if (is_switching_point(*instruction) && --points == 0) return;
  }
}

/// Waves that have ended do not hold the others up, but a kernel in which some waves meet more barriers than others is wrong.
bool GroupRun::pass_barrier() {
  const Wave* waiting = nullptr;
  for (const auto& w : group_.waves)
    if (!w->done) waiting = w.get();
  if (waiting == nullptr) return false;
  for (const auto& w : group_.waves) {
    if (w->done && w->barriers == waiting->barriers) {
      launch_.findings.add_at(*waiting, waiting->pc - kBarrierBytes, Kind::mismatched_barrier,
                              "wave " + std::to_string(waiting->id) + " is at barrier " + std::to_string(waiting->barriers + 1) +
                                  ", wave " + std::to_string(w->id) + " has ended after " + std::to_string(w->barriers));
      break;
    }
  }
  for (const auto& w : group_.waves) w->barriers += w->at_barrier, w->at_barrier = false;
  if (group_.checks != nullptr) group_.checks->pass();
  return true;
}

GroupRun::State GroupRun::run(u64 budget) {
  budget_left_ = budget;
  polls_ = 0;
  std::vector<Wave*> ready;
  for (;;) {
    ready.clear();
    for (const auto& w : group_.waves)
      if (!w->done && !w->at_barrier) ready.push_back(w.get());
    if (ready.empty()) {
      if (!pass_barrier()) return State::finished;
      continue;
    }
    if (polls_ > kMostPolls) return State::waiting;
    if (budget_left_ == 0) return State::running;
    run_slice(*ready[random(static_cast<u32>(ready.size()))]);
  }
}

u64 GroupRun::executed() const {
  u64 sum = 0;
  for (const auto& w : group_.waves) sum += w->executed;
  return sum;
}

void GroupRun::recycle(SpareWaves& spare) {
  for (auto& w : group_.waves) spare.push_back(std::move(w));
  group_.waves.clear();
}

Wave& GroupRun::any_wave() const {
  for (const auto& w : group_.waves)
    if (!w->done) return *w;
  return *group_.waves.front();
}

std::string GroupRun::whereabouts() const {
  std::string text;
  for (const auto& w : group_.waves) {
    if (w->done) continue;
    const u64 address = launch_.code.address_of(w->pc);
    const std::string* instruction = launch_.code.text_at(address);
    text += (text.empty() ? "" : "; ") + std::string("wave ") + std::to_string(w->id) + " at " + hex(address) +
            (instruction != nullptr ? " (" + *instruction + ")" : "");
  }
  return text;
}

}  // namespace jaxator::emulator
