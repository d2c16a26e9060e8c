/// @file
/// From addresses to source lines: the line programs of DWARF 4 and 5.
#pragma once

#include <vector>

#include "emulator/src/object/elf.h"

namespace jaxator::emulator {

class LineTable {
 public:
  /// Empty where the file has no line programs, or none that can be read: lines are a convenience, so a table that is malformed
  /// is left out rather than refused.
  static LineTable read(const Elf& elf);

  /// "file:line", or "" if the address has none.
  std::string at(u64 address) const;

 private:
  friend class LineProgram;
  struct Row {
    u64 address;
    u32 file, line;  // line 0: no code of any line follows
    size_t order;
  };
  std::vector<Row> rows_;  // by address
  std::vector<std::string> files_;
};

}  // namespace jaxator::emulator
