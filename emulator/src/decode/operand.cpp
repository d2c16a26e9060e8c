#include "emulator/src/decode/operand.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

namespace jaxator::emulator {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

/// The text within "word(" and ")", if it is of that form.
bool unwrap(std::string_view& text, std::string_view word) {
  if (text.size() < word.size() + 2 || !text.starts_with(word) || text[word.size()] != '(' || text.back() != ')') return false;
  text = text.substr(word.size() + 1, text.size() - word.size() - 2);
  return true;
}

/// Takes -, | |, neg(), abs() and sext() off.
std::string_view take_modifiers(std::string_view text, Operand& operand) {
  for (;;) {
    if (text.size() > 1 && text[0] == '-' && !is_digit(text[1]) && text[1] != '.') {
      operand.negate = !operand.negate;
      text.remove_prefix(1);
    } else if (text.size() > 2 && text.front() == '|' && text.back() == '|') {
      operand.absolute = true;
      text = text.substr(1, text.size() - 2);
    } else if (unwrap(text, "neg")) {
      operand.negate = !operand.negate;
    } else if (unwrap(text, "abs")) {
      operand.absolute = true;
    } else if (unwrap(text, "sext")) {
      operand.sign_extend = true;
    } else {
      return text;
    }
  }
}

/// "7" or "[4:7]" behind a register file's letter.
bool parse_registers(std::string_view text, Operand::Type type, int first, int limit, Operand& operand) {
  int low = 0, high = 0;
  const char* end = text.data() + text.size();
  if (!text.empty() && is_digit(text[0])) {
    const auto number = std::from_chars(text.data(), end, low);
    if (number.ec != std::errc() || number.ptr != end) return false;
    high = low;
  } else if (text.size() > 4 && text.front() == '[' && text.back() == ']') {
    const auto begin = std::from_chars(text.data() + 1, end, low);
    if (begin.ec != std::errc() || *begin.ptr != ':') return false;
    const auto last = std::from_chars(begin.ptr + 1, end, high);
    if (last.ec != std::errc() || last.ptr != end - 1) return false;
  } else {
    return false;
  }
  if (low < 0 || high < low || high >= limit) return false;
  operand.type = type;
  operand.index = static_cast<u16>(first + low);
  operand.registers = static_cast<u8>(high - low + 1);
  return true;
}

struct Named {
  std::string_view name;
  u16 index;
  u8 registers;
};
constexpr Named kNamed[] = {{"vcc", kVcc, 2},
                            {"vcc_lo", kVcc, 1},
                            {"vcc_hi", kVcc + 1, 1},
                            {"exec", kExec, 2},
                            {"exec_lo", kExec, 1},
                            {"exec_hi", kExec + 1, 1},
                            {"m0", kM0, 1},
                            {"scc", kScc, 1},
                            {"src_scc", kScc, 1},
                            {"vccz", kVccIsZero, 1},
                            {"src_vccz", kVccIsZero, 1},
                            {"execz", kExecIsZero, 1},
                            {"src_execz", kExecIsZero, 1},
                            {"flat_scratch", kFlatScratch, 2},
                            {"flat_scratch_lo", kFlatScratch, 1},
                            {"flat_scratch_hi", kFlatScratch + 1, 1},
                            {"src_shared_base", kSharedBase, 2},
                            {"src_private_base", kPrivateBase, 2}};

bool parse_register(std::string_view text, Operand& operand) {
  for (const Named& named : kNamed) {
    if (named.name != text) continue;
    operand.type = Operand::Type::scalar, operand.index = named.index, operand.registers = named.registers;
    return true;
  }
  if (text.starts_with("ttmp")) return parse_registers(text.substr(4), Operand::Type::scalar, kTrapTemporary, 16, operand);
  if (text.starts_with('v')) return parse_registers(text.substr(1), Operand::Type::vector, 0, 256, operand);
  if (text.starts_with('a')) return parse_registers(text.substr(1), Operand::Type::vector, kFirstAccumulator, 256, operand);
  if (text.starts_with('s')) return parse_registers(text.substr(1), Operand::Type::scalar, 0, kUserScalars, operand);
  return false;
}

bool parse_constant(std::string_view text, Operand& operand) {
  if (!unwrap(text, "lit")) unwrap(text, "lit64");
  const size_t first = !text.empty() && text[0] == '-' ? 1 : 0;
  if (text.size() <= first || !is_digit(text[first])) return false;
  operand.type = Operand::Type::constant;
  operand.is_literal = text.find('x') != text.npos;
  operand.is_real = !operand.is_literal && text.find('.') != text.npos;
  if (operand.is_real) {
    operand.real = strtod(std::string(text).c_str(), nullptr);
    operand.bits = as_bits(static_cast<float>(operand.real));
  } else {
    operand.bits = static_cast<u32>(parse_number(text));
  }
  return true;
}

}  // namespace

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t at = 0; at <= text.size(); at++) {
    const char c = at < text.size() ? text[at] : separator;
    if (c == '[' || c == '(') depth++;
    if (c == ']' || c == ')') depth--;
    if (c != separator || (depth > 0 && at < text.size())) continue;
    const std::string_view part = trim(text.substr(begin, at - begin));
    if (!part.empty()) parts.push_back(part);
    begin = at + 1;
  }
  return parts;
}

Operand parse_operand(std::string_view text) {
  Operand operand;
  text = take_modifiers(text, operand);
  if (text == "off") {
    operand.type = Operand::Type::off;
    return operand;
  }
  if (!parse_register(text, operand)) parse_constant(text, operand);
  return operand;
}

i64 parse_number(std::string_view text) {
  const std::string copy(text);
  char* end = nullptr;
  const i64 value = strtoll(copy.c_str(), &end, 0);
  if (copy.empty() || *end != 0) throw DecodeError("\"" + copy + "\" is no number");
  return value;
}

}  // namespace jaxator::emulator
