/// @file
/// A loaded code object: its memory image, its kernels, and its instructions decoded as they are reached.
#pragma once

#include <atomic>
#include <map>
#include <mutex>

#include "emulator/src/decode/instruction.h"
#include "emulator/src/machine/sparse_memory.h"
#include "emulator/src/object/line_table.h"

namespace jaxator::emulator {

/// What the kernel descriptor says, beside what is in KernelInfo.
struct KernelDescriptor {
  KernelInfo info;
  std::vector<Parameter> hidden;
  u64 entry = 0, end = 0;  // virtual addresses; end 0: unknown
  u32 rsrc1 = 0, rsrc2 = 0, rsrc3 = 0;
  u16 properties = 0;
  u16 preload_words = 0, preload_offset = 0;

  bool has(int property) const { return (properties >> property & 1) != 0; }
};

struct CodeObject::Implementation {
  Architecture architecture;
  std::vector<u8> file;  // what the views of the ELF point into
  LineTable lines;
  std::map<std::string, KernelDescriptor, std::less<>> kernels;

  SparseMemory memory;  // segments
  u8* base = nullptr;   // of virtual address 0
  u64 memory_size = 0;

  explicit Implementation(std::span<const u8> image);

  const KernelDescriptor& kernel(std::string_view name) const;
  /// Virtual address of a program counter.
  u64 address_of(u64 pc) const { return pc - reinterpret_cast<u64>(base); }
  /// Words of section .text, and the number of one in it.
  u64 words() const { return code_words_; }
  u64 word_of(u64 pc) const { return (address_of(pc) - code_begin_) / 4; }
  u64 address_of_word(u64 word) const { return code_begin_ + 4 * word; }

  /// The instruction at a program counter. Throws DecodeError, which stays the same for that address.
  const Instruction& at(u64 pc) const {
    const u64 word = word_of(pc);
    if (word < code_words_ && pc % 4 == 0) {
      const Instruction* known = decoded_[word].load(std::memory_order_acquire);
      if (known != nullptr) return *known;
    }
    return decode_at(pc);
  }
  /// The text of the instruction that begins there, or null.
  const std::string* text_at(u64 address) const;
  /// Addresses of the instructions in [begin, end).
  std::vector<u64> addresses(u64 begin, u64 end) const;

 private:
  struct Text {
    u32 size;
    std::string text;
  };

  void load_segments(const Elf& elf);
  void relocate(const Elf& elf);
  void find_kernels(const Elf& elf);
  void read_metadata(const Elf& elf);
  void disassemble_code(const Elf& elf);
  const Instruction& decode_at(u64 pc) const;

  u64 code_begin_ = 0, code_words_ = 0;  // section .text
  std::map<u64, Text> texts_;            // by virtual address
  std::unique_ptr<std::atomic<const Instruction*>[]> decoded_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Instruction>> owned_;
};

}  // namespace jaxator::emulator
