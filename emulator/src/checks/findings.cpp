#include "emulator/src/checks/findings.h"

#include "emulator/src/machine/launch_state.h"

namespace jaxator::emulator {

void Findings::add(const Wave& wave, const Instruction& instruction, Kind kind, const std::string& message, int lane, u64 other) {
  add(wave, instruction.pc, instruction.text, kind, message, lane, other);
}

void Findings::add_at_pc(const Wave& wave, Kind kind, const std::string& message, int lane) {
  const CodeObject::Implementation& code = wave.group->launch->code;
  const std::string* text = code.text_at(code.address_of(wave.pc));
  add(wave, wave.pc, text != nullptr ? *text : "", kind, message, lane, 0);
}

void Findings::add(const Wave& wave, u64 pc, std::string text, Kind kind, const std::string& message, int lane, u64 other) {
  const LaunchState& launch = *wave.group->launch;
  const u64 address = launch.code.address_of(pc);
  std::lock_guard lock(mutex_);
  const auto [at, is_new] = all_.try_emplace({kind, address, other});
  Finding& finding = at->second;
  if (!is_new) {
    finding.count++;
    return;
  }
  finding.kind = kind;
  finding.message = message;
  finding.kernel = launch.kernel.info.name;
  finding.instruction = std::move(text);
  finding.source = launch.code.lines.at(address);
  finding.address = address;
  for (int k = 0; k < 3; k++) finding.workgroup[k] = wave.group->id[k];
  finding.wave = wave.id;
  finding.lane = lane;
}

void Findings::add_banks(u64 pc, u32 cycles, u32 conflict_free) {
  std::lock_guard lock(mutex_);
  Cycles& sum = banks_[pc];
  sum.executions++, sum.cycles += cycles, sum.conflict_free += conflict_free;
}

std::vector<Finding> Findings::take() {
  std::vector<Finding> all;
  for (auto& [key, finding] : all_) all.push_back(std::move(finding));
  all_.clear();
  return all;
}

std::vector<BankUse> Findings::take_banks(const CodeObject::Implementation& code) {
  std::vector<BankUse> all;
  for (const auto& [pc, sum] : banks_) {
    const u64 address = code.address_of(pc);
    const std::string* text = code.text_at(address);
    all.push_back({address, text != nullptr ? *text : "", code.lines.at(address), sum.executions, sum.cycles, sum.conflict_free});
  }
  banks_.clear();
  return all;
}

}  // namespace jaxator::emulator
