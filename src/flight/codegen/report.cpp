#include "src/flight/codegen/report.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/BinaryFormat/ELF.h"
#include "llvm/BinaryFormat/MsgPackDocument.h"
#include "llvm/Object/ELF.h"

namespace jaxator::flight {

using namespace llvm;

json::Value Needs::to_json() const {
  const auto number = [](const std::optional<int64_t>& value) { return value ? json::Value(*value) : json::Value(nullptr); };
  return json::Object{{"registers", number(registers)},
                      {"accumulators", number(accumulators)},
                      {"scalars", number(scalars)},
                      {"shared_bytes", number(shared_bytes)},
                      {"spills", number(spills)},
                      {"scratch_bytes", number(scratch_bytes)},
                      {"dynamic_shared_bytes", dynamic_shared_bytes},
                      {"bank_conflicts", number(bank_conflicts)}};
}

namespace {

int64_t number(msgpack::MapDocNode& kernel, StringRef key) {
  const auto found = kernel.find(key);
  return found == kernel.end() ? 0 : int64_t(found->second.getUInt());
}

Error read_metadata(StringRef description, StringMap<Needs>& kernels) {
  msgpack::Document document;
  if (!document.readFromBlob(description, /*Multi=*/false) || !document.getRoot().isMap())
    return createStringError("the metadata of the code object cannot be read");
  for (msgpack::DocNode& node : document.getRoot().getMap()["amdhsa.kernels"].getArray(/*Convert=*/true)) {
    msgpack::MapDocNode& kernel = node.getMap();
    Needs needs;
    // The count of vector registers has the accumulators in it: both are of one file.
    needs.accumulators = number(kernel, ".agpr_count");
    needs.registers = number(kernel, ".vgpr_count");
    needs.scalars = number(kernel, ".sgpr_count");
    needs.shared_bytes = number(kernel, ".group_segment_fixed_size");
    needs.spills = number(kernel, ".vgpr_spill_count") + number(kernel, ".sgpr_spill_count");
    needs.scratch_bytes = number(kernel, ".private_segment_fixed_size");
    kernels[kernel[".name"].getString()] = needs;
  }
  return Error::success();
}

}  // namespace

Expected<StringMap<Needs>> read_code_object(StringRef bytes) {
  auto file = object::ELFFile<object::ELF64LE>::create(bytes);
  if (!file) return file.takeError();
  auto headers = file->program_headers();
  if (!headers) return headers.takeError();
  StringMap<Needs> kernels;
  for (const auto& header : *headers) {
    if (header.p_type != ELF::PT_NOTE) continue;
    Error error = Error::success();
    for (const auto& note : file->notes(header, error)) {
      if (note.getName() != "AMDGPU" || note.getType() != ELF::NT_AMDGPU_METADATA) continue;
      if (Error bad = read_metadata(note.getDescAsStringRef(header.p_align), kernels)) {
        consumeError(std::move(error));
        return std::move(bad);
      }
    }
    if (error) return std::move(error);
  }
  return kernels;
}

Expected<std::vector<std::string>> undefined_symbols(StringRef bytes) {
  auto file = object::ELFFile<object::ELF64LE>::create(bytes);
  if (!file) return file.takeError();
  auto sections = file->sections();
  if (!sections) return sections.takeError();
  std::vector<std::string> names;
  for (const auto& section : *sections) {
    if (section.sh_type != ELF::SHT_DYNSYM) continue;
    auto symbols = file->symbols(&section);
    if (!symbols) return symbols.takeError();
    auto text = file->getStringTableForSymtab(section);
    if (!text) return text.takeError();
    for (const auto& symbol : *symbols) {
      if (!symbol.isUndefined()) continue;
      auto name = symbol.getName(*text);
      if (!name) return name.takeError();
      if (!name->empty()) names.push_back(name->str());
    }
  }
  return names;
}

}  // namespace jaxator::flight
