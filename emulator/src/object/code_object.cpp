#include "emulator/src/object/code_object.h"

#include <algorithm>
#include <cstdio>

#include "emulator/src/decode/decode.h"
#include "emulator/src/object/disassembly.h"
#include "emulator/src/object/msgpack.h"

namespace jaxator::emulator {
namespace {

constexpr u16 kMachineAmdgpu = 224;
constexpr u64 kMaxMemory = u64{1} << 30;
constexpr u32 kRelative64 = 13, kMetadataNote = 32;
/// Instruction fetch may run past the last instruction's word.
constexpr u64 kPadding = 64;

Architecture architecture_of_flags(u32 flags) {
  switch (flags & 255) {
    case 0x4C:
      return Architecture::gfx942;
    case 0x4F:
      return Architecture::gfx950;
    default:
      fail("the code object is for machine ", hex(flags & 255), ", neither gfx942 (0x4c) nor gfx950 (0x4f)");
  }
}

template <class T> T value_at(const u8* from) {
  T value;
  memcpy(&value, from, sizeof value);
  return value;
}

void read_kernel_metadata(const Message& kernel, KernelDescriptor& descriptor) {
  KernelInfo& info = descriptor.info;
  for (const Message& argument : kernel.list_at(".args")) {
    const std::string_view kind = argument.text_at(".value_kind");
    auto& list = kind.starts_with("hidden_") ? descriptor.hidden : info.parameters;
    list.push_back({std::string(argument.text_at(".name")), std::string(kind), static_cast<u32>(argument.number_at(".offset")),
                    static_cast<u32>(argument.number_at(".size"))});
  }
  info.max_threads = static_cast<u32>(kernel.number_at(".max_flat_workgroup_size", info.max_threads));
  info.vector_spills = static_cast<u32>(kernel.number_at(".vgpr_spill_count"));
  info.scalar_spills = static_cast<u32>(kernel.number_at(".sgpr_spill_count"));
  info.scalar_registers = static_cast<u32>(kernel.number_at(".sgpr_count"));
  if (kernel.number_at(".wavefront_size", 64) != 64)
    fail("kernel ", info.name, ": a wave of ", kernel.number_at(".wavefront_size"), " lanes, which must be 64");
}

}  // namespace

CodeObject::Implementation::Implementation(std::span<const u8> image) : file(image.begin(), image.end()) {
  const Elf elf(file);
  if (elf.machine != kMachineAmdgpu) fail("an ELF file for machine ", elf.machine, ", which must be AMDGPU (224)");
  architecture = architecture_of_flags(elf.flags);
  load_segments(elf);
  relocate(elf);
  find_kernels(elf);
  read_metadata(elf);
  lines = LineTable::read(elf);
  disassemble_code(elf);
}

void CodeObject::Implementation::load_segments(const Elf& elf) {
  for (const Segment& segment : elf.segments) {
    if (segment.type != kLoadSegment) continue;
    if (segment.address > kMaxMemory || segment.memory_size > kMaxMemory || segment.file_size > segment.memory_size)
      fail("a segment of ", segment.file_size, " bytes in ", segment.memory_size, " at ", hex(segment.address),
           ": at most 1 GiB, and no more in the file than in memory");
    memory_size = std::max(memory_size, segment.address + segment.memory_size);
  }
  memory = SparseMemory(memory_size + kPadding);
  base = memory.data();
  for (const Segment& segment : elf.segments) {
    if (segment.type != kLoadSegment) continue;
    const Bytes contents = elf.image.part(segment.offset, segment.file_size, "segment");
    if (contents.size() != 0) memcpy(base + segment.address, contents.data(), contents.size());
  }
}

void CodeObject::Implementation::relocate(const Elf& elf) {
  for (const Section& section : elf.sections) {
    if (section.type != kRelocationsWithAddend) continue;
    for (const Relocation& relocation : elf.relocations(section)) {
      if (relocation.type != kRelative64)
        fail("a relocation of type ", relocation.type, " at ", hex(relocation.address),
             ": only R_AMDGPU_RELATIVE64 (13) is supported");
      if (relocation.address > memory_size || memory_size - relocation.address < 8)
        fail("a relocation at ", hex(relocation.address), " outside the ", memory_size, " bytes of memory");
      const u64 value = reinterpret_cast<u64>(base) + static_cast<u64>(relocation.addend);
      memcpy(base + relocation.address, &value, sizeof value);
    }
  }
}

void CodeObject::Implementation::find_kernels(const Elf& elf) {
  constexpr u64 kDescriptorBytes = 64;
  for (const Section& section : elf.sections) {
    if (section.type != kDynamicSymbols) continue;
    const std::vector<Symbol> symbols = elf.symbols(section);
    for (const Symbol& symbol : symbols) {
      if (!symbol.name.ends_with(".kd")) continue;
      const std::string_view kernel_name = symbol.name.substr(0, symbol.name.size() - 3);
      if (symbol.address > memory_size || memory_size - symbol.address < kDescriptorBytes)
        fail("kernel ", kernel_name, ": its descriptor at ", hex(symbol.address), " is outside the ", memory_size,
             " bytes of memory");
      const u8* at = base + symbol.address;
      KernelDescriptor kernel;
      kernel.info.name = kernel_name;
      kernel.info.lds_bytes = value_at<u32>(at);
      kernel.info.scratch_bytes = value_at<u32>(at + 4);
      kernel.info.argument_bytes = value_at<u32>(at + 8);
      kernel.entry = symbol.address + static_cast<u64>(value_at<i64>(at + 16));
      kernel.rsrc3 = value_at<u32>(at + 44), kernel.rsrc1 = value_at<u32>(at + 48), kernel.rsrc2 = value_at<u32>(at + 52);
      kernel.properties = value_at<u16>(at + 56);
      const u16 preload = value_at<u16>(at + 58);
      kernel.preload_words = preload & 127, kernel.preload_offset = preload >> 7;
      if (kernel.entry >= memory_size || kernel.entry % 4 != 0)
        fail("kernel ", kernel_name, ": its code at ", hex(kernel.entry), " is outside the ", memory_size,
             " bytes of memory or not aligned");
      // Granules of 8 registers of both kinds together; accumulation registers begin at a multiple of 4.
      const u32 all = ((kernel.rsrc1 & 63) + 1) * 8;
      kernel.info.vector_registers = std::min(all, ((kernel.rsrc3 & 63) + 1) * 4);
      kernel.info.accumulation_registers = all - kernel.info.vector_registers;
      for (const Symbol& code : symbols)
        if (code.name == kernel_name && code.address == kernel.entry && code.size <= memory_size - code.address)
          kernel.end = code.address + code.size;
      kernels.emplace(kernel_name, std::move(kernel));
    }
  }
}

void CodeObject::Implementation::read_metadata(const Elf& elf) {
  for (const Section& section : elf.sections) {
    if (section.type != kNote) continue;
    const Bytes notes = elf.contents(section);
    for (u64 at = 0; at + 12 <= notes.size();) {
      const u64 name_size = notes.at<u32>(at), size = notes.at<u32>(at + 4), begin = at + 12 + (name_size + 3) / 4 * 4;
      const Bytes contents = notes.part(begin, size, "metadata");
      if (notes.at<u32>(at + 8) == kMetadataNote && notes.view(at + 12, name_size).starts_with("AMDGPU")) {
        const Message metadata = parse_message(contents);
        for (const Message& kernel : metadata.list_at("amdhsa.kernels")) {
          const auto known = kernels.find(kernel.text_at(".name"));
          if (known != kernels.end()) read_kernel_metadata(kernel, known->second);
        }
      }
      at = begin + (size + 3) / 4 * 4;
    }
  }
}

void CodeObject::Implementation::disassemble_code(const Elf& elf) {
  const Section* code = elf.section(".text");
  if (code == nullptr) fail("the code object has no section .text");
  if (code->address > memory_size || code->size > memory_size - code->address || code->address % 4 != 0)
    fail("section .text: ", code->size, " bytes at ", hex(code->address), " are not within the ", memory_size,
         " bytes of memory");
  code_begin_ = code->address;
  code_words_ = code->size / 4;
  decoded_ = std::make_unique<std::atomic<const Instruction*>[]>(code_words_);
  for (DisassembledLine& line : disassemble(architecture, {base + code_begin_, code->size}))
    texts_.emplace(code_begin_ + line.offset, Text{line.size, std::move(line.text)});
}

const KernelDescriptor& CodeObject::Implementation::kernel(std::string_view kernel_name) const {
  const auto found = kernels.find(kernel_name);
  if (found != kernels.end()) return found->second;
  std::string all;
  for (const auto& [known, descriptor] : kernels) all += (all.empty() ? "" : ", ") + known;
  fail("the code object has no kernel ", kernel_name, "; it has: ", all.empty() ? "none" : all);
}

const std::string* CodeObject::Implementation::text_at(u64 address) const {
  const auto found = texts_.find(address);
  return found != texts_.end() ? &found->second.text : nullptr;
}

std::vector<u64> CodeObject::Implementation::addresses(u64 begin, u64 end) const {
  std::vector<u64> all;
  for (auto at = texts_.lower_bound(begin); at != texts_.end() && at->first < end; ++at) all.push_back(at->first);
  return all;
}

const Instruction& CodeObject::Implementation::decode_at(u64 pc) const {
  const u64 address = address_of(pc), word = (address - code_begin_) / 4;
  const auto text = texts_.find(address);
  if (word >= code_words_ || text == texts_.end())
    throw DecodeError(word >= code_words_ ? "the program counter left the code" : "no instruction that LLVM knows");
  auto instruction = std::make_unique<Instruction>();
  instruction->pc = pc;
  instruction->size = text->second.size;
  memcpy(instruction->words, base + address, std::min<u64>(instruction->size, sizeof instruction->words));
  decode(text->second.text, architecture, *instruction);
  std::lock_guard lock(mutex_);
  const Instruction* expected = nullptr;
  if (!decoded_[word].compare_exchange_strong(expected, instruction.get(), std::memory_order_acq_rel)) return *expected;
  owned_.push_back(std::move(instruction));
  return *owned_.back();
}

// ---- the public class ------------------------------------------------------------------------------------------------

CodeObject::CodeObject(std::unique_ptr<Implementation> implementation) : implementation_(std::move(implementation)) {}
CodeObject::~CodeObject() = default;

std::shared_ptr<const CodeObject> CodeObject::load(std::span<const uint8_t> image) {
  return std::shared_ptr<const CodeObject>(new CodeObject(std::make_unique<Implementation>(image)));
}

std::shared_ptr<const CodeObject> CodeObject::open(const std::string& path) {
  FILE* file = fopen(path.c_str(), "rb");
  if (file == nullptr) fail("cannot open ", path);
  std::vector<u8> image;
  u8 buffer[65536];
  for (size_t count; (count = fread(buffer, 1, sizeof buffer, file)) > 0;) image.insert(image.end(), buffer, buffer + count);
  const bool failed = ferror(file) != 0;
  fclose(file);
  if (failed) fail("cannot read ", path);
  return load(image);
}

Architecture CodeObject::architecture() const { return implementation_->architecture; }

std::vector<KernelInfo> CodeObject::kernels() const {
  std::vector<KernelInfo> all;
  for (const auto& [kernel_name, descriptor] : implementation_->kernels) all.push_back(descriptor.info);
  return all;
}

const KernelInfo& CodeObject::kernel(std::string_view kernel_name) const { return implementation_->kernel(kernel_name).info; }

std::vector<std::string> CodeObject::unknown_instructions(std::string_view kernel_name) const {
  const KernelDescriptor& kernel = implementation_->kernel(kernel_name);
  std::vector<std::string> unknown;
  for (u64 address : implementation_->addresses(kernel.entry, kernel.end)) {
    try {
      implementation_->at(reinterpret_cast<u64>(implementation_->base) + address);
    } catch (const DecodeError&) {
      const std::string& text = *implementation_->text_at(address);
      std::string mnemonic = text.substr(0, text.find(' '));
      if (std::find(unknown.begin(), unknown.end(), mnemonic) == unknown.end()) unknown.push_back(std::move(mnemonic));
    }
  }
  return unknown;
}

std::string CodeObject::disassembly(std::string_view kernel_name) const {
  const KernelDescriptor& kernel = implementation_->kernel(kernel_name);
  std::string text;
  for (u64 address : implementation_->addresses(kernel.entry, kernel.end))
    text += hex(address) + " " + *implementation_->text_at(address) + "\n";
  return text;
}

}  // namespace jaxator::emulator
