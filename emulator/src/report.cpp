#include <cstdio>

#include "emulator/src/common.h"

namespace jaxator::emulator {

std::string hex(u64 value) {
  char text[24];
  snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

const char* name(Architecture architecture) { return architecture == Architecture::gfx950 ? "gfx950" : "gfx942"; }

Architecture architecture_of(std::string_view text) {
  if (text == "gfx942") return Architecture::gfx942;
  if (text == "gfx950") return Architecture::gfx950;
  fail("architecture ", text, " must be gfx942 or gfx950");
}

const char* name(Kind kind) {
  switch (kind) {
    case Kind::out_of_bounds:
      return "out of bounds";
    case Kind::unknown_instruction:
      return "unknown instruction";
    case Kind::trap:
      return "trap";
    case Kind::no_progress:
      return "no progress";
    case Kind::unsupported:
      return "not modelled";
    case Kind::missing_wait:
      return "missing wait";
    case Kind::hazard:
      return "hazard";
    case Kind::lds_race:
      return "LDS race";
    case Kind::global_race:
      return "global memory race";
    case Kind::uninitialised:
      return "uninitialised value";
    case Kind::mismatched_barrier:
      return "mismatched barrier";
  }
  return "";
}

std::string Finding::text() const {
  std::string out = std::string(name(kind)) + " in " + kernel + ": " + message + "\n  at " + hex(address) + "  " + instruction;
  if (!source.empty()) out += "\n  " + source;
  out += "\n  workgroup (" + std::to_string(workgroup[0]) + "," + std::to_string(workgroup[1]) + "," +
         std::to_string(workgroup[2]) + "), wave " + std::to_string(wave);
  if (lane >= 0) out += ", lane " + std::to_string(lane);
  if (count > 1) out += "; " + std::to_string(count) + " times in all";
  return out + "\n";
}

std::string Report::text() const {
  std::string out = (completed ? "completed, " : "ended by a finding, ") + std::to_string(instructions) + " wave instructions\n";
  for (const Finding& finding : findings) out += finding.text();
  u64 cycles = 0, conflict_free = 0;
  for (const BankUse& use : banks) cycles += use.cycles, conflict_free += use.conflict_free_cycles;
  if (!banks.empty())
    out += "LDS cycles: " + std::to_string(cycles) + ", " + std::to_string(conflict_free) + " without bank conflicts\n";
  for (const BankUse& use : banks) {
    if (use.cycles == use.conflict_free_cycles) continue;
    out += "  bank conflict at " + hex(use.address) + "  " + use.instruction + ": " + std::to_string(use.cycles) +
           " cycles for " + std::to_string(use.conflict_free_cycles) + " in " + std::to_string(use.executions) + " executions" +
           (use.source.empty() ? "" : "\n    " + use.source) + "\n";
  }
  return out;
}

}  // namespace jaxator::emulator
