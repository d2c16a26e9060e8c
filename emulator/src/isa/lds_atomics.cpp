/// @file
/// Atomic operations on LDS (DS).
#include "emulator/src/isa/atomics.h"

namespace jaxator::emulator {
namespace {

/// Operands: the value before it (of the forms that return it), address, data, and for comparisons more data.
AtomicData data_of(const Plane* plane, const Instruction& i, int lane) {
  const int first = i.returns ? 2 : 1, bytes = i.detail.bytes;
  const auto value = [&](int operand) { return atomic_value(plane, i.operand(operand).index, bytes, lane); };
  switch (static_cast<Atomic>(i.detail.operation)) {
    case Atomic::compare_exchange:
    case Atomic::compare_exchange_float:
      return {value(first + 1), value(first)};  // what to compare with comes first
    case Atomic::masked_or:
      return {value(first), value(first + 1)};
    default:
      return {value(first), 0};
  }
}

void update(Wave& w, const Instruction& i) {
  const u64 exec = w.exec();
  const LaneRegister& address = w.vector[i.operand(i.returns ? 1 : 0).index];
  w.accesses.clear();
  for (int l = 0; l < kLanes; l++)
    if (lane_in(exec, l)) w.accesses.add(lds_access(w, u64{address[l]} + static_cast<u32>(i.offset), i.detail.bytes, l));
  perform_atomic(w, i, data_of);
}

struct Operation {
  const char *name, *type32, *type64;  // null: there is none
  Atomic operation;
};
constexpr Operation kOperations[] = {
    {"add", "u32", "u64", Atomic::add},
    {"sub", "u32", "u64", Atomic::subtract},
    {"rsub", "u32", "u64", Atomic::subtract_reversed},
    {"inc", "u32", "u64", Atomic::increment},
    {"dec", "u32", "u64", Atomic::decrement},
    {"min", "i32", "i64", Atomic::signed_min},
    {"max", "i32", "i64", Atomic::signed_max},
    {"min", "u32", "u64", Atomic::unsigned_min},
    {"max", "u32", "u64", Atomic::unsigned_max},
    {"and", "b32", "b64", Atomic::bit_and},
    {"or", "b32", "b64", Atomic::bit_or},
    {"xor", "b32", "b64", Atomic::bit_xor},
    {"mskor", "b32", "b64", Atomic::masked_or},
    {"cmpst", "b32", "b64", Atomic::compare_exchange},
    {"cmpst", "f32", "f64", Atomic::compare_exchange_float},
    {"add", "f32", "f64", Atomic::add_float},
    {"min", "f32", "f64", Atomic::min_float},
    {"max", "f32", "f64", Atomic::max_float},
    {"pk_add", "f16", nullptr, Atomic::add_half_pair},
    {"pk_add", "bf16", nullptr, Atomic::add_bf16_pair},
};

}  // namespace

void add_lds_atomics(Table& t) {
  const auto add = [&](const std::string& name, const char* type, u8 bytes, Atomic operation, bool returns) {
    const Detail detail{.bytes = bytes, .operation = static_cast<u8>(operation), .space = Space::lds};
    t.add("ds_" + name + (returns ? "_rtn_" : "_") + type, {update, Class::lds, kAtomic, detail});
  };
  for (const Operation& o : kOperations) {
    for (const bool returns : {false, true}) {
      add(o.name, o.type32, 4, o.operation, returns);
      if (o.type64 != nullptr) add(o.name, o.type64, 8, o.operation, returns);
    }
  }
  add("wrxchg", "b32", 4, Atomic::exchange, true);
  add("wrxchg", "b64", 8, Atomic::exchange, true);
}

}  // namespace jaxator::emulator
