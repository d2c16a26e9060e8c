/// @file
/// Conversions between integers, half, bfloat16, single and double precision. Out-of-range floats give the nearest integer, NaN
/// gives 0.
#include "emulator/src/isa/lanes.h"

namespace jaxator::emulator {
namespace {

template <class T, class F> T to_integer(F a) {
  constexpr double low = static_cast<double>(std::numeric_limits<T>::min()),
                   high = static_cast<double>(std::numeric_limits<T>::max());
  if (std::isnan(a)) return 0;
  const double whole = std::trunc(static_cast<double>(a));
  return whole <= low ? std::numeric_limits<T>::min() : whole >= high ? std::numeric_limits<T>::max() : static_cast<T>(whole);
}

/// -1..1 to the whole range of a signed, 0..1 to that of an unsigned number.
template <class T> T to_normalised(double a) {
  if (std::isnan(a)) return 0;
  const double low = std::is_signed_v<T> ? -1 : 0, limited = a < low ? low : a > 1 ? 1 : a;
  return static_cast<T>(std::nearbyint(limited * std::numeric_limits<T>::max()));
}

u8 to_byte(float a) { return std::isnan(a) ? u8{0} : static_cast<u8>(std::nearbyint(a < 0 ? 0.0f : a > 255 ? 255.0f : a)); }

constexpr u32 pack(u32 low, u32 high) { return (low & 0xFFFF) | high << 16; }

u32 pack_signed(double a, double b) {
  return pack(static_cast<u16>(to_normalised<i16>(a)), static_cast<u16>(to_normalised<i16>(b)));
}
u32 pack_unsigned(double a, double b) { return pack(to_normalised<u16>(a), to_normalised<u16>(b)); }

/// A byte of the destination; the others come from c, or stay.
u32 insert_byte(float a, u32 position, u32 c) {
  const int shift = static_cast<int>(8 * (position & 3));
  return (c & ~(255u << shift)) | u32{to_byte(a)} << shift;
}

/// Random bits are added below the last place kept; the rest is dropped.
u16 stochastic_bf16(float a, u32 draw) {
  const u32 bits = as_bits(a);
  if (is_nan_f32(bits) || std::isinf(a)) return to_bf16(a);
  return encode_as_hardware<numeric::bf16>(number_of_f32(bits), AddAndTruncate{draw, 16}, numeric::Overflow::special);
}
u16 stochastic_f16(float a, u32 draw) {
  if (!std::isfinite(a)) return to_f16(a);
  return encode_as_hardware<numeric::f16>(number_of_f32(as_bits(a)), AddAndTruncate{draw, 13}, numeric::Overflow::special);
}

void add_integers(Table& t) {
  t.add("v_cvt_f32_i32", lanes<[](i32 a) { return static_cast<float>(a); }>());
  t.add("v_cvt_f32_u32", lanes<[](u32 a) { return static_cast<float>(a); }>());
  t.add("v_cvt_i32_f32", lanes<[](float a) { return to_integer<i32>(a); }>(kClamp));
  t.add("v_cvt_u32_f32", lanes<[](float a) { return to_integer<u32>(a); }>(kClamp));
  t.add("v_cvt_rpi_i32_f32", lanes<[](float a) { return to_integer<i32>(std::floor(double{a} + 0.5)); }>());
  t.add("v_cvt_flr_i32_f32", lanes<[](float a) { return to_integer<i32>(std::floor(a)); }>());
  t.add("v_cvt_f64_i32", lanes<[](i32 a) { return static_cast<double>(a); }>());
  t.add("v_cvt_f64_u32", lanes<[](u32 a) { return static_cast<double>(a); }>());
  t.add("v_cvt_i32_f64", lanes<[](double a) { return to_integer<i32>(a); }>(kClamp));
  t.add("v_cvt_u32_f64", lanes<[](double a) { return to_integer<u32>(a); }>(kClamp));
  t.add("v_cvt_f16_u16", lanes<[](u16 a) { return f16(a); }>());
  t.add("v_cvt_f16_i16", lanes<[](i16 a) { return f16(a); }>());
  t.add("v_cvt_u16_f16", lanes<[](f16 a) { return to_integer<u16>(a.value); }>(kClamp));
  t.add("v_cvt_i16_f16", lanes<[](f16 a) { return to_integer<i16>(a.value); }>(kClamp));
  t.add("v_cvt_norm_i16_f16", lanes<[](f16 a) { return to_normalised<i16>(a); }>());
  t.add("v_cvt_norm_u16_f16", lanes<[](f16 a) { return to_normalised<u16>(a); }>());
  t.add("v_cvt_f32_ubyte0", lanes<[](u32 a) { return static_cast<float>(a & 255); }>());
  t.add("v_cvt_f32_ubyte1", lanes<[](u32 a) { return static_cast<float>(a >> 8 & 255); }>());
  t.add("v_cvt_f32_ubyte2", lanes<[](u32 a) { return static_cast<float>(a >> 16 & 255); }>());
  t.add("v_cvt_f32_ubyte3", lanes<[](u32 a) { return static_cast<float>(a >> 24); }>());
  // A signed nibble, in sixteenths.
  t.add("v_cvt_off_f32_i4", lanes<[](u32 a) { return static_cast<float>(sign_extend(a & 15, 4)) / 16; }>());
  t.add("v_cvt_pk_u8_f32", lanes<[](float a, u32 b, u32 c) { return insert_byte(a, b, c); }>());
  t.add("v_cvt_pkaccum_u8_f32", lanes<[](float a, u32 b, u32 c) { return insert_byte(a, b, c); }>(kAccumulates));
  t.add("v_cvt_pk_u16_u32", lanes<[](u32 a, u32 b) { return pack(saturate<u16>(a), saturate<u16>(b)); }>());
  t.add("v_cvt_pk_i16_i32",
        lanes<[](i32 a, i32 b) { return pack(static_cast<u16>(saturate<i16>(a)), static_cast<u16>(saturate<i16>(b))); }>());
  t.add("v_cvt_pknorm_i16_f32", lanes<[](float a, float b) { return pack_signed(a, b); }>());
  t.add("v_cvt_pknorm_u16_f32", lanes<[](float a, float b) { return pack_unsigned(a, b); }>());
  t.add("v_cvt_pknorm_i16_f16", lanes<[](f16 a, f16 b) { return pack_signed(a, b); }>());
  t.add("v_cvt_pknorm_u16_f16", lanes<[](f16 a, f16 b) { return pack_unsigned(a, b); }>());
}

void add_floats(Table& t) {
  t.add("v_cvt_f64_f32", lanes<[](float a) { return static_cast<double>(a); }>());
  t.add("v_cvt_f32_f64", lanes<[](double a) { return static_cast<float>(a); }>());
  t.add("v_cvt_f16_f32", lanes<[](float a) { return f16(a); }>());
  t.add("v_cvt_f32_f16", lanes<[](f16 a) { return static_cast<float>(a.value); }>());
  t.add("v_cvt_f32_bf16", lanes<[](u16 a) { return from_bf16(a); }>());
  t.add("v_cvt_pkrtz_f16_f32", lanes<[](float a, float b) { return pack(to_f16_towards_zero(a), to_f16_towards_zero(b)); }>());
  t.add("v_cvt_pk_f16_f32", lanes<[](float a, float b) { return pack(to_f16(a), to_f16(b)); }>());
  t.add("v_cvt_pk_bf16_f32", lanes<[](float a, float b) { return pack(to_bf16(a), to_bf16(b)); }>());
  t.add("v_cvt_sr_bf16_f32", lanes<[](float a, u32 b) { return stochastic_bf16(a, b); }>(kKeepsRest));
  t.add("v_cvt_sr_f16_f32", lanes<[](float a, u32 b) { return stochastic_f16(a, b); }>(kKeepsRest));
}

}  // namespace

void add_conversions(Table& t) {
  add_integers(t);
  add_floats(t);
}

}  // namespace jaxator::emulator
