/// @file
/// Global, flat and scratch memory: loads, stores, and fetches from global memory to LDS.
#include "emulator/src/isa/memory_access.h"
#include "emulator/src/isa/memory_widths.h"

namespace jaxator::emulator {
namespace {

/// A 64-bit address in two registers, or 32 bits behind a scalar base, and the instruction's offset.
u64 address_of(const Wave& w, const Instruction& i, int address, int base, int lane) {
  const Operand& o = i.operand(address);
  const u64 offset = static_cast<u64>(i64{i.offset});
  if (base < i.operand_count && i.operand(base).is_scalar())
    return w.scalar64(i.operand(base).index) + w.vector[o.index][lane] + offset;
  return join(w.vector[o.index][lane], w.vector[o.index + 1][lane]) + offset;
}

/// Scratch: a vector register, a scalar register, both or none.
u64 scratch_offset(const Wave& w, const Instruction& i, int address, int base, int lane) {
  u64 offset = static_cast<u64>(i64{i.offset});
  if (i.operand(address).is_vector()) offset += w.vector[i.operand(address).index][lane];
  if (i.operand(base).is_scalar()) offset += w.scalar[i.operand(base).index];
  return static_cast<u32>(offset);
}

template <Space space> void list_accesses(Wave& w, const Instruction& i, int address, int base) {
  const u64 exec = w.exec();
  w.accesses.clear();
  for (int l = 0; l < kLanes; l++) {
    if (!lane_in(exec, l)) continue;
    if constexpr (space == Space::scratch)
      w.accesses.add(scratch_access(w, scratch_offset(w, i, address, base, l), i.detail.bytes, l));
    else if constexpr (space == Space::flat)
      w.accesses.add(flat_access(w, address_of(w, i, address, base, l), i.detail.bytes, l));
    else
      w.accesses.add(global_access(w, address_of(w, i, address, base, l), i.detail.bytes, l));
  }
}

template <Space space> void load(Wave& w, const Instruction& i) {
  list_accesses<space>(w, i, 1, 2);
  perform_load(w, i, w.exec(), deliver_value);
}

template <Space space> void store(Wave& w, const Instruction& i) {
  list_accesses<space>(w, i, 0, 2);
  perform_store(w, i, w.exec(), collect_value<1>);
}

/// Lane after lane from M0 on. The offset counts on both sides.
void fetch_to_lds(Wave& w, const Instruction& i) {
  list_accesses<Space::global>(w, i, 0, 1);
  const u64 base = u64{w.scalar[kM0]} + static_cast<u64>(i64{i.offset});
  w.lds_accesses.clear();
  for (const Access& access : w.accesses)
    w.lds_accesses.add(lds_access(w, base + u64{access.lane} * i.detail.bytes, i.detail.bytes, access.lane));
  perform_fetch_to_lds(w, i);
}

void no_operation(Wave&, const Instruction&) {}

template <Space space> void add_space(Table& t, const std::string& prefix, Class unit) {
  for (const Width& width : kLoadWidths)
    t.add(prefix + "load_" + width.name, {load<space>, unit, kLoad, in_space(width.detail, space)});
  for (const Width& width : kStoreWidths)
    t.add(prefix + "store_" + width.name, {store<space>, unit, kStore | kNoResult, in_space(width.detail, space)});
}

}  // namespace

void add_global(Table& t) {
  add_space<Space::global>(t, "global_", Class::vector_memory);
  add_space<Space::flat>(t, "flat_", Class::flat);
  add_space<Space::scratch>(t, "scratch_", Class::vector_memory);
  struct Fetch {
    const char* name;
    u8 bytes;
  };
  for (const Fetch fetch : {Fetch{"dword", 4}, {"dwordx3", 12}, {"dwordx4", 16}})
    t.add(std::string("global_load_lds_") + fetch.name,
          {fetch_to_lds, Class::vector_memory, kLoad | kToLds, {.bytes = fetch.bytes, .space = Space::global}});
  for (const char* name : {"buffer_wbl2", "buffer_inv"}) t.add(name, {no_operation, Class::cache, kNoResult});
}

}  // namespace jaxator::emulator
