#include "emulator/src/isa/matrix_layout.h"

namespace jaxator::emulator {
namespace {

/// XF32: single precision with 10 bits of mantissa, to nearest even.
float round_to_xf32(u32 bits) {
  if ((bits & 0x7F800000) == 0x7F800000) return as_float(bits);
  return as_float((bits + 0xFFF + (bits >> 13 & 1)) & ~0x1FFFu);
}

template <numeric::Format format> void decode_table_row(const u32* words, int count, float* out) {
  constexpr int bits = format.bits();
  for (int k = 0; k < count; k++) {
    const int at = k * bits, shift = at % 32;
    const u64 two = shift + bits > 32 ? join(words[at / 32], words[at / 32 + 1]) : words[at / 32];
    out[k] = as_float(numeric::decode_table<format, numeric::f32>[static_cast<int>(two >> shift & ((1u << bits) - 1))]);
  }
}

u32 half_at(const u32* words, int k) { return words[k / 2] >> 16 * (k % 2) & 0xFFFF; }

}  // namespace

void decode_elements(Element type, const u32* words, int count, float* out) {
  switch (type) {
    case Element::f32:
      for (int k = 0; k < count; k++) out[k] = as_float(words[k]);
      return;
    case Element::xf32:
      for (int k = 0; k < count; k++) out[k] = round_to_xf32(words[k]);
      return;
    case Element::f16:
      for (int k = 0; k < count; k++) out[k] = from_f16(half_at(words, k));
      return;
    case Element::bf16:
      for (int k = 0; k < count; k++) out[k] = from_bf16(half_at(words, k));
      return;
    case Element::fp8:
      return decode_table_row<numeric::e4m3>(words, count, out);
    case Element::bf8:
      return decode_table_row<numeric::e5m2>(words, count, out);
    case Element::fp8fnuz:
      return decode_table_row<numeric::e4m3fnuz>(words, count, out);
    case Element::bf8fnuz:
      return decode_table_row<numeric::e5m2fnuz>(words, count, out);
    case Element::fp6:
      return decode_table_row<kE2m3>(words, count, out);
    case Element::bf6:
      return decode_table_row<kE3m2>(words, count, out);
    case Element::fp4:
      return decode_table_row<numeric::e2m1>(words, count, out);
    default:
      throw Fault{Kind::unsupported, "a matrix of this element type in single precision"};
  }
}

void decode_elements(Element, const u32* words, int count, i32* out) {
  for (int k = 0; k < count; k++) out[k] = sign_extend(words[k / 4] >> 8 * (k % 4) & 255, 8);
}

void decode_elements(Element, const u32* words, int count, double* out) {
  for (int k = 0; k < count; k++) out[k] = as_double(join(words[2 * k], words[2 * k + 1]));
}

}  // namespace jaxator::emulator
