/// @file
/// Vector arithmetic in single precision. Results are correctly rounded; hardware's transcendental functions have errors of an
/// ulp or so, and flush denormals whatever the mode.
#include "emulator/src/isa/float_functions.h"
#include "emulator/src/isa/lanes.h"

namespace jaxator::emulator {
namespace {

void add_arithmetic(Table& t) {
  t.add("v_add_f32", lanes<[](float a, float b) { return a + b; }>());
  t.add("v_sub_f32", lanes<[](float a, float b) { return a - b; }>());
  t.add("v_subrev_f32", lanes<[](float a, float b) { return b - a; }>());
  t.add("v_mul_f32", lanes<[](float a, float b) { return a * b; }>());
  t.add("v_mul_legacy_f32", lanes<[](float a, float b) { return a == 0 || b == 0 ? 0.0f : a * b; }>());
  constexpr auto fma = [](float a, float b, float c) { return std::fma(a, b, c); };
  t.add("v_fma_f32", lanes<fma>());
  t.add("v_fmac_f32", lanes<fma>(kAccumulates));
  t.add("v_fmamk_f32", lanes<fma>());  // the constant stands where the function takes it
  t.add("v_fmaak_f32", lanes<fma>());
  t.add("v_ldexp_f32", lanes<[](float a, i32 b) { return std::ldexp(a, b); }>());
}

void add_order(Table& t) {
  t.add("v_min_f32", lanes<[](float a, float b) { return minimum_number(a, b); }>());
  t.add("v_max_f32", lanes<[](float a, float b) { return maximum_number(a, b); }>());
  t.add("v_min3_f32", lanes<[](float a, float b, float c) { return minimum_number(minimum_number(a, b), c); }>());
  t.add("v_max3_f32", lanes<[](float a, float b, float c) { return maximum_number(maximum_number(a, b), c); }>());
  t.add("v_med3_f32", lanes<[](float a, float b, float c) { return median_number(a, b, c); }>());
  t.add("v_minimum3_f32", lanes<[](float a, float b, float c) { return minimum(minimum(a, b), c); }>());
  t.add("v_maximum3_f32", lanes<[](float a, float b, float c) { return maximum(maximum(a, b), c); }>());
}

void add_rounding(Table& t) {
  t.add("v_trunc_f32", lanes<[](float a) { return std::trunc(a); }>());
  t.add("v_ceil_f32", lanes<[](float a) { return std::ceil(a); }>());
  t.add("v_floor_f32", lanes<[](float a) { return std::floor(a); }>());
  t.add("v_rndne_f32", lanes<[](float a) { return std::nearbyint(a); }>());
  t.add("v_fract_f32", lanes<[](float a) { return fraction_of(a, 0x1.fffffep-1f); }>());
  t.add("v_frexp_mant_f32", lanes<[](float a) { return mantissa_of(a); }>());
  t.add("v_frexp_exp_i32_f32", lanes<[](float a) { return exponent_of(a); }>());
}

void add_transcendental(Table& t) {
  const auto add = [&](const char* name, Entry entry) {
    entry.traits |= kTranscendental;
    t.add(name, entry);
  };
  constexpr auto reciprocal = [](float a) { return flush(1.0f / flush(a)); };
  constexpr auto power = [](float a) { return flush(static_cast<float>(std::exp2(double{flush(a)}))); };
  constexpr auto logarithm = [](float a) { return static_cast<float>(std::log2(double{flush(a)})); };
  add("v_rcp_f32", lanes<reciprocal>());
  add("v_rcp_iflag_f32", lanes<reciprocal>());
  add("v_rsq_f32", lanes<[](float a) { return static_cast<float>(1.0 / std::sqrt(double{flush(a)})); }>());
  add("v_sqrt_f32", lanes<[](float a) { return std::sqrt(flush(a)); }>());
  add("v_exp_f32", lanes<power>());
  add("v_exp_legacy_f32", lanes<power>());
  add("v_log_f32", lanes<logarithm>());
  add("v_log_legacy_f32", lanes<logarithm>());
  add("v_sin_f32", lanes<[](float a) { return static_cast<float>(sine_of_revolutions(flush(a))); }>());
  add("v_cos_f32", lanes<[](float a) { return static_cast<float>(cosine_of_revolutions(flush(a))); }>());
}

// ---- faces of a cube map: the axis with the largest magnitude, z before y before x ------------------------------------

constexpr bool z_is_largest(float x, float y, float z) { return std::fabs(z) >= std::fabs(x) && std::fabs(z) >= std::fabs(y); }
constexpr bool y_is_largest(float x, float y) { return std::fabs(y) >= std::fabs(x); }

void add_cube(Table& t) {
  t.add("v_cubeid_f32", lanes<[](float x, float y, float z) {
          if (z_is_largest(x, y, z)) return z < 0 ? 5.0f : 4.0f;
          if (y_is_largest(x, y)) return y < 0 ? 3.0f : 2.0f;
          return x < 0 ? 1.0f : 0.0f;
        }>());
  t.add("v_cubesc_f32", lanes<[](float x, float y, float z) {
          if (z_is_largest(x, y, z)) return z < 0 ? -x : x;
          if (y_is_largest(x, y)) return x;
          return x < 0 ? z : -z;
        }>());
  t.add("v_cubetc_f32", lanes<[](float x, float y, float z) {
          if (z_is_largest(x, y, z)) return -y;
          if (y_is_largest(x, y)) return y < 0 ? -z : z;
          return -y;
        }>());
  t.add("v_cubema_f32",
        lanes<[](float x, float y, float z) { return 2.0f * (z_is_largest(x, y, z) ? z
                                                             : y_is_largest(x, y)  ? y
                                                                                   : x); }>());
}

}  // namespace

void add_vector_float(Table& t) {
  add_arithmetic(t);
  add_order(t);
  add_rounding(t);
  add_transcendental(t);
  add_cube(t);
}

}  // namespace jaxator::emulator
