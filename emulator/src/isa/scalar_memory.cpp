/// @file
/// Scalar loads (SMEM): dwords from an address or a buffer.
#include "emulator/src/checks/wave_checks.h"
#include "emulator/src/isa/memory_access.h"

namespace jaxator::emulator {
namespace {

/// Operand 2 is the offset where it is a register or a constant; a further one stands behind it as a modifier.
u64 offset_of(const Wave& w, const Instruction& i) {
  const u64 immediate = static_cast<u64>(i64{i.offset});
  if (i.operand_count < 3 || i.operand(2).type == Operand::Type::off) return immediate;
  const Operand& offset = i.operand(2);
  if (offset.is_constant()) return immediate + static_cast<u64>(i64{static_cast<i32>(offset.bits)});
  return immediate + read_scalar(w, offset);
}

void load_words(Wave& w, const Instruction& i, u64 address, int words) {
  w.accesses.clear();
  if (words != 0) w.accesses.add(global_access(w, address & ~u64{3}, 4 * words, 0));
  for (const Access& access : w.accesses)
    copy_from_shared(reinterpret_cast<u8*>(&w.scalar[i.operand(0).index]), access.data, access.bytes);
  if (w.checks != nullptr) w.checks->loaded_scalars(w, i);
}

void check_registers(const Instruction& i, int words) {
  if (i.operand(0).index + words > kTrapTemporary + 16) throw Fault{Kind::unsupported, "a scalar load past the last register"};
}

template <int words> void load(Wave& w, const Instruction& i) {
  check_registers(i, words);
  load_words(w, i, w.scalar64(i.operand(1).index) + offset_of(w, i), words);
}

/// Dwords that are out of range are 0.
template <int words> void buffer_load(Wave& w, const Instruction& i) {
  check_registers(i, words);
  const u32* descriptor = &w.scalar[i.operand(1).index];
  const u64 base = join(descriptor[0], descriptor[1] & 0xFFFF), offset = static_cast<u32>(offset_of(w, i)) & ~3u;
  const u32 stride = descriptor[1] >> 16 & 0x3FFF;
  const u64 bytes = stride != 0 ? u64{stride} * descriptor[2] : descriptor[2];
  const u64 readable = offset >= bytes ? 0 : std::min<u64>((bytes - offset) / 4, words);
  for (int k = 0; k < words; k++) w.scalar[i.operand(0).index + k] = 0;
  load_words(w, i, base + offset, static_cast<int>(readable));
}

template <int words> void add_width(Table& t, const std::string& name) {
  t.add("s_load_" + name, {load<words>, Class::scalar_memory, kLoad, {.bytes = 4 * words}});
  t.add("s_buffer_load_" + name, {buffer_load<words>, Class::scalar_memory, kLoad, {.bytes = 4 * words}});
}

}  // namespace

void add_scalar_memory(Table& t) {
  add_width<1>(t, "dword");
  add_width<2>(t, "dwordx2");
  add_width<4>(t, "dwordx4");
  add_width<8>(t, "dwordx8");
  add_width<16>(t, "dwordx16");
}

}  // namespace jaxator::emulator
