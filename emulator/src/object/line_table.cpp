#include "emulator/src/object/line_table.h"

#include <algorithm>
#include <tuple>

namespace jaxator::emulator {
namespace {

enum Form : u64 {
  kData2 = 5,
  kData4 = 6,
  kData8 = 7,
  kString = 8,
  kBlock = 9,
  kData1 = 11,
  kStrp = 14,
  kUdata = 15,
  kData16 = 30,
  kLineStrp = 31
};
enum Content : u64 { kPath = 1, kDirectoryIndex = 2 };

/// Sections that hold texts; empty where missing.
struct Texts {
  Bytes line_str, str;
};

/// An entry of a directory or file list of version 5.
struct Entry {
  std::string_view path;
  u64 directory = 0;
};

std::string_view text_of(Cursor& in, u64 form, const Texts& texts) {
  switch (form) {
    case kString:
      return in.take_text();
    case kLineStrp:
      return texts.line_str.text(in.take<u32>());
    case kStrp:
      return texts.str.text(in.take<u32>());
    default:
      fail("line table: a path of form ", form);
  }
}

u64 number_of(Cursor& in, u64 form) {
  switch (form) {
    case kData1:
      return in.take<u8>();
    case kData2:
      return in.take<u16>();
    case kData4:
      return in.take<u32>();
    case kData8:
      return in.take<u64>();
    case kUdata:
      return in.take_uleb128();
    case kBlock:
      in.take_view(in.take_uleb128());
      return 0;
    case kData16:
      in.take_view(16);
      return 0;
    case kString:
      in.take_text();
      return 0;
    case kStrp:
    case kLineStrp:
      in.take<u32>();
      return 0;
    default:
      fail("line table: an attribute of form ", form);
  }
}

std::vector<Entry> entries_v5(Cursor& in, const Texts& texts) {
  struct Format {
    u64 content, form;
  };
  std::vector<Format> formats;
  const u8 format_count = in.take<u8>();
  for (int i = 0; i < format_count; i++) {
    const u64 content = in.take_uleb128();
    formats.push_back({content, in.take_uleb128()});
  }
  const u64 count = in.take_uleb128();
  if (count > in.left()) fail("line table: ", count, " entries in ", in.left(), " bytes");
  std::vector<Entry> entries;
  for (u64 i = 0; i < count; i++) {
    Entry& entry = entries.emplace_back();
    for (const Format& format : formats) {
      if (format.content == kPath)
        entry.path = text_of(in, format.form, texts);
      else if (format.content == kDirectoryIndex)
        entry.directory = number_of(in, format.form);
      else
        number_of(in, format.form);
    }
  }
  return entries;
}

std::string joined(const std::vector<std::string_view>& directories, const Entry& entry) {
  if (entry.path.starts_with('/') || entry.directory >= directories.size()) return std::string(entry.path);
  const std::string_view directory = directories[entry.directory];
  return directory.empty() ? std::string(entry.path) : std::string(directory) + "/" + std::string(entry.path);
}

}  // namespace

/// One unit of .debug_line: a header, and a program for a machine with the registers below.
class LineProgram {
 public:
  LineProgram(LineTable& table, const Bytes& unit, const Texts& texts) : table_(table), in_(unit) { read_header(texts); }

  void run() {
    while (!in_.at_end()) step();
  }

 private:
  void read_header(const Texts& texts) {
    const u16 version = in_.take<u16>();
    if (version != 4 && version != 5) fail("line table: version ", version);
    if (version == 5) in_.take<u16>();  // sizes of addresses and segment selectors
    const u32 header_size = in_.take<u32>();
    const u64 program = in_.offset() + header_size;
    min_length_ = in_.take<u8>();
    in_.take<u8>();  // operations an instruction: 1 on this target
    in_.take<u8>();  // is_stmt's default
    line_base_ = in_.take<i8>();
    line_range_ = in_.take<u8>();
    if (line_range_ == 0) fail("line table: a line range of 0");
    opcode_base_ = in_.take<u8>();
    for (int i = 1; i < opcode_base_; i++) lengths_.push_back(in_.take<u8>());
    first_file_ = table_.files_.size();
    if (version == 5)
      files_v5(texts);
    else
      files_v4();
    in_.move_to(program);
  }

  void files_v5(const Texts& texts) {
    std::vector<std::string_view> directories;
    for (const Entry& entry : entries_v5(in_, texts)) directories.push_back(entry.path);
    for (const Entry& entry : entries_v5(in_, texts)) table_.files_.push_back(joined(directories, entry));
  }

  void files_v4() {
    std::vector<std::string_view> directories{""};
    for (std::string_view directory = in_.take_text(); !directory.empty(); directory = in_.take_text())
      directories.push_back(directory);
    table_.files_.emplace_back();  // files are counted from 1
    for (std::string_view path = in_.take_text(); !path.empty(); path = in_.take_text()) {
      const u64 directory = in_.take_uleb128();
      in_.take_uleb128();  // time
      in_.take_uleb128();  // size
      table_.files_.push_back(joined(directories, {path, directory}));
    }
  }

  void emit(u32 line) {
    const u64 file = first_file_ + file_;
    table_.rows_.push_back({address_, static_cast<u32>(std::min<u64>(file, ~0u)), line, table_.rows_.size()});
  }

  void reset() { address_ = 0, file_ = 1, line_ = 1; }

  void advance(u64 operations) { address_ += operations * min_length_; }

  void step() {
    const u8 opcode = in_.take<u8>();
    if (opcode >= opcode_base_) {
      const int adjusted = opcode - opcode_base_;
      advance(adjusted / line_range_);
      line_ += line_base_ + adjusted % line_range_;
      return emit(line_);
    }
    switch (opcode) {
      case 0:
        return extended();
      case 1:
        return emit(line_);
      case 2:
        return advance(in_.take_uleb128());
      case 3:
        line_ += static_cast<u32>(in_.take_sleb128());
        return;
      case 4:
        file_ = in_.take_uleb128();
        return;
      case 8:
        return advance((255 - opcode_base_) / line_range_);
      case 9:
        address_ += in_.take<u16>();
        return;
      default:  // column, flags and what later versions add: operands only
        for (int i = 0; i < lengths_[opcode - 1]; i++) in_.take_uleb128();
    }
  }

  void extended() {
    const u64 size = in_.take_uleb128(), end = in_.offset() + size;
    if (size > in_.left()) fail("line table: an operation of ", size, " bytes, ", in_.left(), " are left");
    if (size == 0) return;
    switch (in_.take<u8>()) {
      case 1:
        emit(0), reset();
        break;
      case 2:
        address_ = in_.take<u64>();
        break;
      default:
        break;
    }
    in_.move_to(end);
  }

  LineTable& table_;
  Cursor in_;
  int min_length_ = 1, line_base_ = 0, line_range_ = 1, opcode_base_ = 1;
  std::vector<u8> lengths_;
  u64 first_file_ = 0, address_ = 0, file_ = 1;
  u32 line_ = 1;
};

LineTable LineTable::read(const Elf& elf) {
  LineTable table;
  try {
    const Section* lines = elf.section(".debug_line");
    if (lines == nullptr) return table;
    const auto contents = [&](const char* name) {
      const Section* section = elf.section(name);
      return section != nullptr ? elf.contents(*section) : Bytes({}, name);
    };
    const Texts texts{contents(".debug_line_str"), contents(".debug_str")};
    const Bytes bytes = elf.contents(*lines);
    for (u64 at = 0; at < bytes.size();) {
      const u64 size = bytes.at<u32>(at);  // 64-bit DWARF begins with 0xFFFFFFFF, which does not fit either
      LineProgram(table, bytes.part(at + 4, size, "line table"), texts).run();
      at += 4 + size;
    }
  } catch (const Error&) {
    return {};
  }
  // The end of one sequence may be the beginning of another, which then counts.
  std::sort(table.rows_.begin(), table.rows_.end(), [](const Row& a, const Row& b) {
    return std::tuple(a.address, a.line != 0, a.order) < std::tuple(b.address, b.line != 0, b.order);
  });
  return table;
}

std::string LineTable::at(u64 address) const {
  const auto after = std::upper_bound(rows_.begin(), rows_.end(), address, [](u64 a, const Row& row) { return a < row.address; });
  if (after == rows_.begin()) return "";
  const Row& row = *(after - 1);
  if (row.line == 0 || row.file >= files_.size()) return "";
  return files_[row.file] + ":" + std::to_string(row.line);
}

}  // namespace jaxator::emulator
