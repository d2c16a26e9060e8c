#include "emulator/src/checks/findings.h"

#include <algorithm>

#include "emulator/src/machine/launch_state.h"

namespace jaxator::emulator {
namespace {

struct Sizes {
  u64 all = 0, distinct = 0, blocks = 0;
};

/// Bytes in all spans, bytes and blocks that are in any.
Sizes sizes_of(std::vector<Span>& spans) {
  std::ranges::sort(spans, {}, &Span::begin);
  Sizes sizes;
  u64 end = 0, blocks_end = 0;
  for (const Span& span : spans) {
    sizes.all += span.end - span.begin;
    const u64 begin = std::max(span.begin, end), first_block = std::max(span.begin / 64, blocks_end);
    end = std::max(end, span.end), blocks_end = std::max(blocks_end, (span.end + 63) / 64);
    if (end > begin) sizes.distinct += end - begin;
    if (blocks_end > first_block) sizes.blocks += blocks_end - first_block;
  }
  return sizes;
}

}  // namespace

void Findings::add(const Wave& wave, const Instruction& instruction, Kind kind, const std::string& message, int lane, u64 other) {
  add(wave, instruction.pc, instruction.text, kind, message, lane, other);
}

void Findings::add_at(const Wave& wave, u64 pc, Kind kind, const std::string& message) {
  const CodeObject::Implementation& code = wave.group->launch->code;
  const std::string* text = code.text_at(code.address_of(pc));
  add(wave, pc, text != nullptr ? *text : "", kind, message, -1, 0);
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

Traffic Findings::take_traffic() {
  const Sizes in = sizes_of(loaded), out = sizes_of(stored);
  loaded.clear(), stored.clear();
  return {in.all, in.distinct, in.blocks, out.all, out.distinct, out.blocks};
}

}  // namespace jaxator::emulator
