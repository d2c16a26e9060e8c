/// @file
/// Atomic operations on global memory: global, flat and buffer forms.
#include "emulator/src/isa/atomics.h"
#include "emulator/src/isa/buffer_access.h"

namespace jaxator::emulator {
namespace {

/// A comparison's data: the new value, then what to compare with, in one row of registers.
template <int without_result, int with_result> AtomicData data_of(const Plane* plane, const Instruction& i, int lane) {
  const int index = i.operand(i.returns ? with_result : without_result).index, bytes = i.detail.bytes;
  const AtomicData data{atomic_value(plane, index, bytes, lane), 0};
  if (static_cast<Atomic>(i.detail.operation) != Atomic::compare_exchange) return data;
  return {data.value, atomic_value(plane, index + bytes / 4, bytes, lane)};
}

/// Operands: the value before it if it returns it, address, data, scalar base.
template <Space space> void update(Wave& w, const Instruction& i) {
  const u64 exec = w.exec(), offset = static_cast<u64>(i64{i.offset});
  const int first = i.returns ? 1 : 0, base = first + 2;
  const int index = i.operand(first).index;
  const bool has_base = base < i.operand_count && i.operand(base).is_scalar();
  w.accesses.clear();
  for (int l = 0; l < kLanes; l++) {
    if (!lane_in(exec, l)) continue;
    const u64 address = offset + (has_base ? w.scalar64(i.operand(base).index) + w.vector[index][l]
                                           : join(w.vector[index][l], w.vector[index + 1][l]));
    w.accesses.add(space == Space::flat ? flat_access(w, address, i.detail.bytes, l)
                                        : global_access(w, address, i.detail.bytes, l));
  }
  perform_atomic(w, i, data_of<1, 2>);
}

/// The data is in the register of the result.
void update_buffer(Wave& w, const Instruction& i) {
  const u64 exec = w.exec();
  w.accesses.clear();
  for (int l = 0; l < kLanes; l++) {
    if (!lane_in(exec, l)) continue;
    const BufferAddress lane(w, i, 1, 2, l);
    const Access outside{nullptr, 0, nullptr, Space::global, static_cast<u8>(l), i.detail.bytes, 0};
    w.accesses.add(lane.in_range(0, i.detail.bytes) ? global_access(w, lane.address(0), i.detail.bytes, l) : outside);
  }
  perform_atomic(w, i, data_of<0, 0>);
}

struct Operation {
  const char* name;
  Atomic operation;
};
constexpr Operation kIntegers[] = {{"add", Atomic::add},
                                   {"sub", Atomic::subtract},
                                   {"inc", Atomic::increment},
                                   {"dec", Atomic::decrement},
                                   {"smin", Atomic::signed_min},
                                   {"smax", Atomic::signed_max},
                                   {"umin", Atomic::unsigned_min},
                                   {"umax", Atomic::unsigned_max},
                                   {"and", Atomic::bit_and},
                                   {"or", Atomic::bit_or},
                                   {"xor", Atomic::bit_xor},
                                   {"swap", Atomic::exchange},
                                   {"cmpswap", Atomic::compare_exchange}};
struct Float {
  const char* name;
  u8 bytes;
  Atomic operation;
};
constexpr Float kFloats[] = {{"add_f32", 4, Atomic::add_float},        {"add_f64", 8, Atomic::add_float},
                             {"min_f64", 8, Atomic::min_float},        {"max_f64", 8, Atomic::max_float},
                             {"pk_add_f16", 4, Atomic::add_half_pair}, {"pk_add_bf16", 4, Atomic::add_bf16_pair}};

}  // namespace

void add_global_atomics(Table& t) {
  struct Family {
    const char* prefix;
    Function execute;
    Class unit;
    Space space;
  };
  for (const Family& family : {Family{"global_atomic_", update<Space::global>, Class::vector_memory, Space::global},
                               {"flat_atomic_", update<Space::flat>, Class::flat, Space::flat},
                               {"buffer_atomic_", update_buffer, Class::vector_memory, Space::buffer}}) {
    const auto add = [&](const std::string& name, u8 bytes, Atomic operation) {
      t.add(family.prefix + name, {family.execute,
                                   family.unit,
                                   kAtomic,
                                   {.bytes = bytes, .operation = static_cast<u8>(operation), .space = family.space}});
    };
    for (const Operation& o : kIntegers) {
      add(o.name, 4, o.operation);
      add(o.name + std::string("_x2"), 8, o.operation);
    }
    for (const Float& f : kFloats) add(f.name, f.bytes, f.operation);
  }
}

}  // namespace jaxator::emulator
