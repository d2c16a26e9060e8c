#include "emulator/src/json.h"

#include <cstdio>

namespace jaxator::emulator {
namespace {

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 32) {
      char escape[8];
      snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
      out += escape;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

/// {"key": value, ...} in the order of the calls.
class Object {
 public:
  Object& add(std::string_view key, std::string_view text) { return add_raw(key, quoted(text)); }
  Object& add(std::string_view key, const char* text) { return add_raw(key, quoted(text)); }
  Object& add(std::string_view key, bool value) { return add_raw(key, value ? "true" : "false"); }
  template <class T>
    requires std::is_integral_v<T>
  Object& add(std::string_view key, T value) {
    return add_raw(key, std::to_string(value));
  }
  Object& add_raw(std::string_view key, std::string_view value) {
    text_ += (text_.empty() ? "" : ", ") + quoted(key) + ": " + std::string(value);
    return *this;
  }
  std::string text() const { return "{" + text_ + "}"; }

 private:
  std::string text_;
};

template <class List, class Write> std::string list(const List& all, const Write& write) {
  std::string text;
  for (const auto& item : all) text += (text.empty() ? "" : ", ") + write(item);
  return "[" + text + "]";
}

std::string write_finding(const Finding& f) {
  const auto group = list(f.workgroup, [](uint32_t k) { return std::to_string(k); });
  return Object()
      .add("kind", name(f.kind))
      .add("message", f.message)
      .add("kernel", f.kernel)
      .add("instruction", f.instruction)
      .add("source", f.source)
      .add("address", f.address)
      .add_raw("workgroup", group)
      .add("wave", f.wave)
      .add("lane", f.lane)
      .add("count", f.count)
      .text();
}

std::string write_bank_use(const BankUse& b) {
  return Object()
      .add("address", b.address)
      .add("instruction", b.instruction)
      .add("source", b.source)
      .add("executions", b.executions)
      .add("cycles", b.cycles)
      .add("conflict_free_cycles", b.conflict_free_cycles)
      .text();
}

/// Most steps touch no memory: their zeros are left out.
std::string write_step(const TraceStep& s) {
  std::string text = "[" + std::to_string(s.address) + "," + std::to_string(s.wave);
  const uint64_t more[] = {s.lds_cycles, s.global_bytes, s.lds.begin, s.lds.end, s.global.begin, s.global.end};
  if (s.lds_cycles != 0 || s.lds.end != 0 || s.global.end != 0)
    for (const uint64_t value : more) text += "," + std::to_string(value);
  return text + "]";
}

std::string write_traffic(const Traffic& t) {
  return Object()
      .add("loaded", t.loaded)
      .add("loaded_distinct", t.loaded_distinct)
      .add("loaded_blocks", t.loaded_blocks)
      .add("stored", t.stored)
      .add("stored_distinct", t.stored_distinct)
      .add("stored_blocks", t.stored_blocks)
      .text();
}

std::string write_parameter(const Parameter& p) {
  return Object().add("name", p.name).add("type", p.type).add("offset", p.offset).add("bytes", p.bytes).text();
}

std::string write_kernel(const KernelInfo& k) {
  return Object()
      .add("name", k.name)
      .add_raw("parameters", list(k.parameters, write_parameter))
      .add("argument_bytes", k.argument_bytes)
      .add("lds_bytes", k.lds_bytes)
      .add("scratch_bytes", k.scratch_bytes)
      .add("vector_registers", k.vector_registers)
      .add("accumulation_registers", k.accumulation_registers)
      .add("scalar_registers", k.scalar_registers)
      .add("vector_spills", k.vector_spills)
      .add("scalar_spills", k.scalar_spills)
      .add("max_threads", k.max_threads)
      .text();
}

}  // namespace

std::string to_json(const Report& report) {
  return Object()
      .add("completed", report.completed)
      .add("instructions", report.instructions)
      .add_raw("findings", list(report.findings, write_finding))
      .add_raw("banks", list(report.banks, write_bank_use))
      .add_raw("trace", list(report.trace, write_step))
      .add_raw("traffic", write_traffic(report.traffic))
      .add_raw("executed", list(report.executed, [](uint64_t address) { return std::to_string(address); }))
      .add("text", report.text())
      .text();
}

std::string to_json(const CodeObject& code) {
  return Object().add("architecture", name(code.architecture())).add_raw("kernels", list(code.kernels(), write_kernel)).text();
}

}  // namespace jaxator::emulator
