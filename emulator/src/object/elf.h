/// @file
/// The parts of an ELF64 file that a code object needs.
#pragma once

#include <vector>

#include "emulator/src/object/bytes.h"

namespace jaxator::emulator {

enum SectionType : u32 { kSymbolTable = 2, kRelocationsWithAddend = 4, kNote = 7, kNoBits = 8, kDynamicSymbols = 11 };
enum SegmentType : u32 { kLoadSegment = 1 };

struct Section {
  std::string_view name;
  u32 type, link;
  u64 address, offset, size, entry_size;
};

struct Segment {
  u32 type;
  u64 offset, address, file_size, memory_size;
};

struct Symbol {
  std::string_view name;
  u8 type;  // 1 object, 2 function
  u64 address, size;
};

struct Relocation {
  u64 address;
  u32 type, symbol;
  i64 addend;
};

/// A view of an image, which must outlive it.
struct Elf {
  Bytes image;
  u16 machine;
  u32 flags;
  u8 os_abi;
  std::vector<Section> sections;
  std::vector<Segment> segments;

  explicit Elf(std::span<const u8> data);

  /// Null if there is none of that name.
  const Section* section(std::string_view name) const;
  Bytes contents(const Section& section) const;
  std::vector<Symbol> symbols(const Section& table) const;
  std::vector<Relocation> relocations(const Section& table) const;
};

}  // namespace jaxator::emulator
