#include "emulator/src/isa/atomics.h"

#include <algorithm>
#include <atomic>

#include "emulator/src/checks/wave_checks.h"
#include "emulator/src/isa/float_functions.h"

namespace jaxator::emulator {
namespace {

template <class T> T integer_result(Atomic operation, T old, T value, T other) {
  using S = std::make_signed_t<T>;
  switch (operation) {
    case Atomic::add:
      return old + value;
    case Atomic::subtract:
      return old - value;
    case Atomic::subtract_reversed:
      return value - old;
    case Atomic::increment:
      return old >= value ? 0 : old + 1;
    case Atomic::decrement:
      return old == 0 || old > value ? value : old - 1;
    case Atomic::signed_min:
      return std::min<S>(static_cast<S>(old), static_cast<S>(value));
    case Atomic::signed_max:
      return std::max<S>(static_cast<S>(old), static_cast<S>(value));
    case Atomic::unsigned_min:
      return std::min(old, value);
    case Atomic::unsigned_max:
      return std::max(old, value);
    case Atomic::bit_and:
      return old & value;
    case Atomic::bit_or:
      return old | value;
    case Atomic::bit_xor:
      return old ^ value;
    case Atomic::masked_or:
      return (old & ~value) | other;
    case Atomic::exchange:
      return value;
    case Atomic::compare_exchange:
      return old == other ? value : old;
    default:
      return old;
  }
}

template <class F> F float_result(Atomic operation, F old, F value, F other) {
  switch (operation) {
    case Atomic::add_float:
      return old + value;
    case Atomic::min_float:
      return minimum_number(old, value);
    case Atomic::max_float:
      return maximum_number(old, value);
    default:
      return old == other ? value : old;  // compare_exchange_float
  }
}

u32 half_pair(u32 old, u32 value) {
  return to_f16(double{from_f16(old & 0xFFFF)} + from_f16(value & 0xFFFF)) |
         u32{to_f16(double{from_f16(old >> 16)} + from_f16(value >> 16))} << 16;
}
u32 bf16_pair(u32 old, u32 value) {
  return to_bf16(from_bf16(old) + from_bf16(value)) | u32{to_bf16(from_bf16(old >> 16) + from_bf16(value >> 16))} << 16;
}

template <class T> T result_of(Atomic operation, T old, T value, T other) {
  using F = std::conditional_t<sizeof(T) == 8, double, float>;
  if (operation == Atomic::add_half_pair) return static_cast<T>(half_pair(static_cast<u32>(old), static_cast<u32>(value)));
  if (operation == Atomic::add_bf16_pair) return static_cast<T>(bf16_pair(static_cast<u32>(old), static_cast<u32>(value)));
  if (operation < Atomic::add_float) return integer_result(operation, old, value, other);
  return std::bit_cast<T>(float_result(operation, std::bit_cast<F>(old), std::bit_cast<F>(value), std::bit_cast<F>(other)));
}

template <class T> T update(u8* at, Atomic operation, const AtomicData& data) {
  std::atomic_ref<T> memory(*reinterpret_cast<T*>(at));
  T old = memory.load(std::memory_order_relaxed);
  while (!memory.compare_exchange_weak(old, result_of(operation, old, static_cast<T>(data.value), static_cast<T>(data.other)),
                                       std::memory_order_seq_cst)) {
  }
  return old;
}

}  // namespace

void perform_atomic(Wave& w, const Instruction& i, AtomicSource source) {
  const Atomic operation = static_cast<Atomic>(i.detail.operation);
  const int bytes = i.detail.bytes;
  LaneValues before{};
  u64 lanes = 0;
  for (const Access& access : w.accesses) {
    lanes |= u64{1} << access.lane;
    if (access.data == nullptr) continue;
    if (access.address % static_cast<u64>(bytes) != 0)
      throw Fault{Kind::out_of_bounds,
                  "an atomic operation of " + std::to_string(bytes) + " bytes at an address that is no multiple", access.lane};
    const AtomicData data = source(w.vector, i, access.lane);
    const u64 old = bytes == 8 ? update<u64>(access.data, operation, data) : update<u32>(access.data, operation, data);
    memcpy(before.at[access.lane], &old, static_cast<size_t>(bytes));
  }
  if (i.returns) deliver_value(w.vector, i, lanes, before);
  if (w.checks != nullptr) w.checks->updated(w, i, lanes, source);
}

}  // namespace jaxator::emulator
