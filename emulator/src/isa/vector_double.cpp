/// @file
/// Vector arithmetic in double precision.
#include "emulator/src/isa/float_functions.h"
#include "emulator/src/isa/lanes.h"

namespace jaxator::emulator {
namespace {

/// 2/pi: bits behind the point, from the first on, 32 a word. Hardware has 1201 of them.
constexpr int kTwoOverPiBits = 1201;
constexpr u32 kTwoOverPi[] = {0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB, 0xDEBBC561,
                              0xB7246E3A, 0x424DD2E0, 0x06492EEA, 0x09D1921C, 0xFE1DEB1C, 0xB129A73E, 0xE88235F5, 0x2EBB4484,
                              0xE99C7026, 0xB45F7E41, 0x3991D639, 0x835339F4, 0x9C845F8B, 0xBDF9283B, 0x1FF897FF, 0xDE05980F,
                              0xEF2F118B, 0x5A0A6D1F, 0x6D367ECF, 0x27CB09B7, 0x4F463F66, 0x9E5FEA2D, 0x7527BAC7, 0xEBE5F17B,
                              0x3D0739F7, 0x8A5292EA, 0x6BFB5FB1, 0x1F8D5D08, 0x56033046, 0xFC7B6BAB, 0xF0CFBC20, 0x9AF4361D};

/// 53 bits of 2/pi from bit `segment` * 53 on, for the reduction of large angles.
double trigonometric_segment(double a, u32 segment) {
  const int field = static_cast<int>(as_bits(a) >> 52 & 2047);
  int shift = static_cast<int>(segment & 31) * 53;
  if (field > 1077) shift += field - 1077;
  u64 bits = 0;
  for (int k = 0; k < 53; k++) {
    const int at = shift + k;
    const u32 word = at < kTwoOverPiBits ? kTwoOverPi[at / 32] : 0;
    bits = bits << 1 | (word >> (31 - at % 32) & 1);
  }
  return std::ldexp(static_cast<double>(bits), -53 - shift + (field >= 1968 ? 128 : 0));
}

}  // namespace

void add_vector_double(Table& t) {
  t.add("v_add_f64", lanes<[](double a, double b) { return a + b; }>());
  t.add("v_mul_f64", lanes<[](double a, double b) { return a * b; }>());
  constexpr auto fma = [](double a, double b, double c) { return std::fma(a, b, c); };
  t.add("v_fma_f64", lanes<fma>());
  t.add("v_fmac_f64", lanes<fma>(kAccumulates));
  t.add("v_min_f64", lanes<[](double a, double b) { return minimum_number(a, b); }>());
  t.add("v_max_f64", lanes<[](double a, double b) { return maximum_number(a, b); }>());
  t.add("v_ldexp_f64", lanes<[](double a, i32 b) { return std::ldexp(a, b); }>());
  t.add("v_trunc_f64", lanes<[](double a) { return std::trunc(a); }>());
  t.add("v_ceil_f64", lanes<[](double a) { return std::ceil(a); }>());
  t.add("v_floor_f64", lanes<[](double a) { return std::floor(a); }>());
  t.add("v_rndne_f64", lanes<[](double a) { return std::nearbyint(a); }>());
  t.add("v_fract_f64", lanes<[](double a) { return fraction_of(a, 0x1.fffffffffffffp-1); }>());
  t.add("v_frexp_mant_f64", lanes<[](double a) { return mantissa_of(a); }>());
  t.add("v_frexp_exp_i32_f64", lanes<[](double a) { return exponent_of(a); }>());
  t.add("v_rcp_f64", lanes<[](double a) { return 1.0 / a; }>(kTranscendental));
  t.add("v_rsq_f64", lanes<[](double a) { return 1.0 / std::sqrt(a); }>(kTranscendental));
  t.add("v_sqrt_f64", lanes<[](double a) { return std::sqrt(a); }>(kTranscendental));
  t.add("v_trig_preop_f64", lanes<[](double a, u32 b) { return trigonometric_segment(a, b); }>());
}

}  // namespace jaxator::emulator
