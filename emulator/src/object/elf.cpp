#include "emulator/src/object/elf.h"

namespace jaxator::emulator {
namespace {

constexpr u64 kSymbolBytes = 24, kRelocationBytes = 24;

void check_header(const Bytes& image) {
  if (image.size() < 64 || memcmp(image.data(), "\177ELF", 4) != 0) fail("not an ELF file");
  if (image.at<u8>(4) != 2 || image.at<u8>(5) != 1) fail("not a little-endian 64-bit ELF file");
}

/// The number of entries of a table that has to be made of whole entries.
u64 entries(const Section& table, u64 bytes, const char* what) {
  if (table.entry_size != bytes || table.size % bytes != 0)
    fail("section ", std::string(table.name), ": ", table.size, " bytes of ", what, " in entries of ", table.entry_size,
         ", which must be ", bytes);
  return table.size / bytes;
}

}  // namespace

Elf::Elf(std::span<const u8> data) : image(data, "ELF file") {
  check_header(image);
  os_abi = image.at<u8>(7);
  machine = image.at<u16>(18);
  flags = image.at<u32>(48);
  const u64 segment_table = image.at<u64>(32), section_table = image.at<u64>(40);
  const u16 segment_bytes = image.at<u16>(54), segment_count = image.at<u16>(56);
  const u16 section_bytes = image.at<u16>(58), section_count = image.at<u16>(60), names_index = image.at<u16>(62);
  if (segment_count != 0 && segment_bytes != 56) fail("ELF file: program headers of ", segment_bytes, " bytes, which must be 56");
  if (section_count != 0 && section_bytes != 64) fail("ELF file: section headers of ", section_bytes, " bytes, which must be 64");

  const Bytes segment_headers = image.part(segment_table, u64{segment_count} * segment_bytes, "program headers");
  for (u64 at = 0; at < segment_headers.size(); at += segment_bytes)
    segments.push_back({segment_headers.at<u32>(at), segment_headers.at<u64>(at + 8), segment_headers.at<u64>(at + 16),
                        segment_headers.at<u64>(at + 32), segment_headers.at<u64>(at + 40)});

  const Bytes headers = image.part(section_table, u64{section_count} * section_bytes, "section headers");
  for (u64 at = 0; at < headers.size(); at += section_bytes)
    sections.push_back({"", headers.at<u32>(at + 4), headers.at<u32>(at + 40), headers.at<u64>(at + 16), headers.at<u64>(at + 24),
                        headers.at<u64>(at + 32), headers.at<u64>(at + 56)});
  if (names_index >= sections.size()) return;
  const Bytes names = contents(sections[names_index]);
  for (size_t i = 0; i < sections.size(); i++) sections[i].name = names.text(headers.at<u32>(i * section_bytes));
}

const Section* Elf::section(std::string_view name) const {
  for (const Section& section : sections)
    if (section.name == name) return &section;
  return nullptr;
}

Bytes Elf::contents(const Section& section) const {
  return image.part(section.offset, section.type == kNoBits ? 0 : section.size, "section");
}

std::vector<Symbol> Elf::symbols(const Section& table) const {
  if (table.link >= sections.size()) fail("the symbol table's names are in section ", table.link, " of ", sections.size());
  const Bytes names = contents(sections[table.link]), bytes = contents(table);
  std::vector<Symbol> symbols;
  for (u64 i = 0; i < entries(table, kSymbolBytes, "symbols"); i++) {
    const u64 at = i * kSymbolBytes;
    symbols.push_back({names.text(bytes.at<u32>(at)), static_cast<u8>(bytes.at<u8>(at + 4) & 15), bytes.at<u64>(at + 8),
                       bytes.at<u64>(at + 16)});
  }
  return symbols;
}

std::vector<Relocation> Elf::relocations(const Section& table) const {
  const Bytes bytes = contents(table);
  std::vector<Relocation> relocations;
  for (u64 i = 0; i < entries(table, kRelocationBytes, "relocations"); i++) {
    const u64 at = i * kRelocationBytes, info = bytes.at<u64>(at + 8);
    relocations.push_back({bytes.at<u64>(at), static_cast<u32>(info), static_cast<u32>(info >> 32), bytes.at<i64>(at + 16)});
  }
  return relocations;
}

}  // namespace jaxator::emulator
