#include "emulator/src/decode/decode.h"

#include <algorithm>

#include "emulator/src/decode/modifiers.h"
#include "emulator/src/decode/operand.h"
#include "emulator/src/isa/table.h"

namespace jaxator::emulator {
namespace {

/// The mnemonic without its encoding.
std::string_view take_encoding(std::string_view name, Instruction& i) {
  if (name.ends_with("_dpp")) return i.dpp.used = true, name.substr(0, name.size() - 4);
  if (name.ends_with("_sdwa")) return i.sdwa.used = true, name.substr(0, name.size() - 5);
  if (name.ends_with("_e32") || name.ends_with("_e64")) return name.substr(0, name.size() - 4);
  return name;
}

void add_operand(const Operand& operand, Instruction& i) {
  if (i.operand_count == kMaxOperands)
    throw DecodeError(i.name + " with more than " + std::to_string(kMaxOperands) + " operands");
  i.operands[i.operand_count++] = operand;
}

/// "operand, operand, operand modifier modifier".
void parse_operands(std::string_view text, Instruction& i) {
  for (std::string_view part : split(text, ',')) {
    const std::vector<std::string_view> words = split(part, ' ');
    size_t next = 0;
    const Operand first = parse_operand(words[0]);
    if (first.type != Operand::Type::none) add_operand(first, i), next = 1;
    for (; next < words.size(); next++) apply_modifier(words[next], i);
  }
}

/// op_sel and its companions from the encoding: as printed, the last of op_sel stands for the destination or for a source.
void take_selections(Instruction& i) {
  constexpr u32 kVop3 = 0x34, kVop3p = 0x1A7;  // 6 and 9 bits
  if (i.words[0] >> 23 == kVop3p) {
    i.op_sel = i.words[0] >> 11 & 7;
    i.op_sel_hi = static_cast<u8>((i.words[1] >> 27 & 3) | (i.words[0] >> 14 & 1) << 2);
    i.neg_lo = i.words[1] >> 29 & 7;
    i.neg_hi = i.words[0] >> 8 & 7;
  } else if (i.words[0] >> 26 == kVop3 && !i.has(kTwoResults)) {  // two results: the second is encoded there
    i.op_sel = i.words[0] >> 11 & 15;
  } else if (i.name.starts_with("v_pk_")) {
    i.op_sel_hi = 7;  // the short encoding: each half from its own half
  }
}

void check_source_modifiers(const Instruction& i) {
  for (int k = 0; k < i.operand_count; k++) {
    const Operand& operand = i.operand(k);
    if ((operand.negate || operand.absolute) && !i.has(kSourceModifiers))
      throw DecodeError("a negated or absolute operand of " + i.name + " is not implemented");
    if (operand.sign_extend && !i.sdwa.used) throw DecodeError("a sign-extended operand of " + i.name + " is not implemented");
  }
}

void add(std::vector<RegisterRange>& ranges, bool is_vector, int first, int count) {
  ranges.push_back({is_vector, static_cast<u16>(first), static_cast<u8>(count)});
}

void add(std::vector<RegisterRange>& ranges, const Operand& operand) {
  if (operand.is_vector() || operand.is_scalar()) add(ranges, operand.is_vector(), operand.index, operand.registers);
}

}  // namespace

void derive_registers(Instruction& i) {
  i.sources.clear(), i.results.clear();
  const bool keeps = i.has(kKeepsRest) || i.detail.half || (i.sdwa.used && i.sdwa.unused == Sdwa::Unused::preserve);
  const bool no_result = i.has(kNoResult) || i.has(kToLds) || (i.has(kAtomic) && !i.returns);
  const int results = no_result ? 0 : i.has(kTwoResults) || i.has(kSwaps) ? 2 : 1;
  for (int k = 0; k < i.operand_count; k++) {
    const Operand& operand = i.operand(k);
    if (k < results) add(i.results, operand);
    if (k >= results || i.has(kSwaps) || (k == 0 && keeps)) add(i.sources, operand);
    if (!operand.is_vector()) continue;
    const u16 top = static_cast<u16>(operand.index + operand.registers);
    if (operand.index < kFirstAccumulator)
      i.top_vector = std::max(i.top_vector, top);
    else
      i.top_accumulator = std::max<u16>(i.top_accumulator, static_cast<u16>(top - kFirstAccumulator));
  }
  // A buffer atomic that returns has its data in the register of the result.
  if (i.has(kAtomic) && i.returns && i.detail.space == Space::buffer) add(i.sources, i.operand(0));
  if (i.has(kReadsScc)) add(i.sources, false, kScc, 1);
  if (i.has(kReadsVcc)) add(i.sources, false, kVcc, 2);
  if (i.has(kReadsExec)) add(i.sources, false, kExec, 2);
  if (i.has(kReadsM0) || i.has(kToLds)) add(i.sources, false, kM0, 1);
  if (i.has(kWritesScc)) add(i.results, false, kScc, 1);
  if (i.has(kWritesExec) || i.has(kCmpx)) add(i.results, false, kExec, 2);
  if (i.has(kWritesM0)) add(i.results, false, kM0, 1);
}

void decode(std::string_view text, Architecture architecture, Instruction& i) {
  const size_t space = text.find(' ');
  i.text = text;
  i.name = take_encoding(text.substr(0, space), i);
  const Entry* entry = instruction_table().find(i.name);
  if (entry == nullptr) throw DecodeError("instruction " + i.name + " is not implemented");
  i.execute = entry->execute, i.unit = entry->unit, i.traits = entry->traits, i.detail = entry->detail;
  if (!entry->by_encoding && space != text.npos) parse_operands(text.substr(space + 1), i);
  check_source_modifiers(i);
  if (i.unit != Class::matrix) take_selections(i);
  if (i.has(kAtomic)) i.returns = i.unit == Class::lds ? i.name.find("_rtn") != i.name.npos : i.sc0;
  if (i.has(kAccumulates)) add_operand(i.operand(0), i);
  if (entry->prepare != nullptr) entry->prepare(i, architecture);
  derive_registers(i);
}

}  // namespace jaxator::emulator
