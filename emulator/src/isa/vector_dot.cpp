/// @file
/// Dot products of the parts of a register. neg_lo and neg_hi negate the low and the high half of floats.
#include "emulator/src/isa/lanes.h"

namespace jaxator::emulator {
namespace {

/// Element k of `bits` bits.
template <int bits, bool is_signed> constexpr i64 element(u32 a, int k) {
  const u32 raw = a >> bits * k & ((1u << bits) - 1);
  return is_signed ? sign_extend(raw, bits) : static_cast<i64>(raw);
}

template <int bits, bool is_signed> constexpr auto integer_dot = [](u32 a, u32 b, u32 c) {
  i64 sum = is_signed ? static_cast<i64>(static_cast<i32>(c)) : static_cast<i64>(c);
  for (int k = 0; k < 32 / bits; k++) sum += element<bits, is_signed>(a, k) * element<bits, is_signed>(b, k);
  return Exact<std::conditional_t<is_signed, i32, u32>>{sum};
};

enum class Order { accumulator_first, accumulator_last };

/// Single precision throughout, in the order of the ISA documents.
template <auto from_half, Order order> void float_dot(Wave& w, const Instruction& i) {
  u64 written = kAllLanes;
  Lanes<u32> a, b, c, out;
  read_lanes(w, i, 1, 0, a, written);
  read_lanes(w, i, 2, 1, b, written);
  read_lanes(w, i, 3, 2, c, written);
  const auto flipped = [&](int source) {
    return ((i.neg_lo >> source & 1) != 0 ? 0x8000u : 0) | ((i.neg_hi >> source & 1) != 0 ? 0x80000000u : 0);
  };
  const bool negates = (i.neg_lo >> 2 & 1) != 0;
  for (int l = 0; l < kLanes; l++) {
    const u32 x = a[l] ^ flipped(0), y = b[l] ^ flipped(1);
    const float low = from_half(x & 0xFFFF) * from_half(y & 0xFFFF), high = from_half(x >> 16) * from_half(y >> 16);
    const float accumulator = negates ? -as_float(c[l]) : as_float(c[l]);
    const float sum = order == Order::accumulator_first ? accumulator + low + high : low + high + accumulator;
    out[l] = as_bits(apply_output_modifier(w, i, sum));
  }
  write_lanes(w, i, 0, 0, out, written);
}

}  // namespace

void add_vector_dot(Table& t) {
  t.add("v_dot2_i32_i16", lanes<integer_dot<16, true>>());
  t.add("v_dot2_u32_u16", lanes<integer_dot<16, false>>());
  t.add("v_dot4_i32_i8", lanes<integer_dot<8, true>>());
  t.add("v_dot4_u32_u8", lanes<integer_dot<8, false>>());
  t.add("v_dot8_i32_i4", lanes<integer_dot<4, true>>());
  t.add("v_dot8_u32_u4", lanes<integer_dot<4, false>>());
  t.add("v_dot2c_i32_i16", lanes<integer_dot<16, true>>(kAccumulates));
  t.add("v_dot4c_i32_i8", lanes<integer_dot<8, true>>(kAccumulates));
  t.add("v_dot8c_i32_i4", lanes<integer_dot<4, true>>(kAccumulates));
  const auto floats = [&](const char* name, Function execute, u32 traits) {
    t.add(name, {execute, Class::vector_alu, traits | kOpSel | kClamp});
  };
  floats("v_dot2_f32_f16", float_dot<from_f16, Order::accumulator_first>, 0);
  floats("v_dot2_f32_bf16", float_dot<from_bf16, Order::accumulator_last>, 0);
  floats("v_dot2c_f32_f16", float_dot<from_f16, Order::accumulator_first>, kAccumulates);
  floats("v_dot2c_f32_bf16", float_dot<from_bf16, Order::accumulator_first>, kAccumulates);
}

}  // namespace jaxator::emulator
