#include "src/numeric/convert.h"

#include <gtest/gtest.h>

namespace jaxator::numeric {
namespace {

// Constants of the formats' standards, at compile time.
static_assert(to_float<e4m3>(e4m3.max_code()) == 448 && to_float<e5m2>(e5m2.max_code()) == 57344);
static_assert(to_float<e4m3fnuz>(e4m3fnuz.max_code()) == 240 && to_float<e5m2fnuz>(e5m2fnuz.max_code()) == 57344);
static_assert(to_float<e2m1>(e2m1.max_code()) == 6 && to_float<f16>(f16.max_code()) == 65504);
static_assert(to_float<e4m3>(1) == 0x1p-9f && to_float<e5m2>(1) == 0x1p-16f && to_float<f16>(1) == 0x1p-24f);
static_assert(to_float<e4m3fnuz>(1) == 0x1p-10f && to_float<e5m2fnuz>(1) == 0x1p-17f && to_float<bf16>(1) == 0x1p-133f);
static_assert(e2m1.max_exponent() == 2 && e4m3.max_exponent() == 8 && e5m2.max_exponent() == 15);
static_assert(sizeof(Code<e2m1>) == 1 && sizeof(Code<f16>) == 2 && sizeof(Code<f32>) == 4);

// Ties, carries, saturation.
static_assert(from_float<e2m1>(2.5f) == 0x4 && from_float<e2m1>(3.5f) == 0x6 && from_float<e2m1>(5.0f) == 0x6);
static_assert(from_float<e2m1>(-0.25f) == 0 && from_float<e2m1>(-0.0f) == 0 && from_float<e2m1>(-0.26f) == 0x9);
static_assert(from_float<e4m3>(464.0f) == 0x7E && from_float<e4m3>(464.1f) == 0x7F && from_float<e4m3>(-0.0f) == 0x80);
static_assert(from_float<e4m3>(1e9f, NearestEven{}, Overflow::saturate) == 0x7E);
static_assert(from_float<e5m2>(61440.0f) == 0x7C && from_float<e5m2>(61440.0f, NearestEven{}, Overflow::saturate) == 0x7B);
static_assert(from_float<e4m3fnuz>(248.0f) == 0x80 && from_float<e4m3fnuz>(-0x1p-20f) == 0);
static_assert(from_float<bf16>(0x1.ffp-1f) == 0x3F80 && from_float<f16>(0x1p-25f) == 0);

// Stochastic: 2.25 lies a quarter of the way from 2 to 3, so 64 of 256 draws go up.
static_assert(from_float<e2m1>(2.25f, Stochastic{63}) == 0x5 && from_float<e2m1>(2.25f, Stochastic{64}) == 0x4);
static_assert(from_float<e2m1>(2.0f, Stochastic{0}) == 0x4 && from_float<e2m1>(100.0f, Stochastic{255}) == 0x7);
// The share itself is rounded half to even: 0.5 / 256 counts as 0, 1.5 / 256 as 2 / 256.
static_assert(from_float<e2m1>(2 + 0x1p-9f, Stochastic{0}) == 0x4 && from_float<e2m1>(2 + 3 * 0x1p-9f, Stochastic{1}) == 0x5);
static_assert(from_float<e2m1>(3 - 0x1p-11f, Stochastic{255}) == 0x5);

static_assert(decode_table<e2m1, bf16>[0xF] == 0xC0C0 && decode_table<e4m3, f32>[0x7F] == 0x7FC00000);

template <Format format> void expect_round_trip() {
  for (uint32_t code = 0; code < 2 * format.sign_bit(); code++) {
    const Code<format> narrow = static_cast<Code<format>>(code);
    const Number x = decode<format>(narrow);
    const bool minus_zero = format.specials == Specials::none && code == format.sign_bit();
    const uint32_t want = x.kind == Number::Kind::nan ? nan_code<format>(x.negative) : minus_zero ? 0 : code;
    const uint32_t wide = convert<format, f32>(narrow);
    EXPECT_EQ((convert<f32, format>(wide)), want);
    for (uint32_t random : {0u, 128u, 255u})
      EXPECT_EQ((convert<f32, format>(wide, Stochastic{random})), want) << "what is exact is never rounded";
  }
}

TEST(NumericConvert, EveryCodeSurvivesFloat32) {
  expect_round_trip<bf16>();
  expect_round_trip<f16>();
  expect_round_trip<e4m3>();
  expect_round_trip<e5m2>();
  expect_round_trip<e4m3fnuz>();
  expect_round_trip<e5m2fnuz>();
  expect_round_trip<e2m1>();
}

template <Format format> void expect_monotonic() {
  uint32_t last = 0;
  for (uint32_t bits = 0; bits <= 0x7F800000; bits += 0x1003) {
    const uint32_t code = convert<f32, format>(bits, NearestEven{}, Overflow::saturate);
    EXPECT_GE(code, last);
    last = code;
  }
  EXPECT_EQ(last, format.max_code());
}

TEST(NumericConvert, LargerInputsNeverGetSmallerResults) {
  expect_monotonic<bf16>();
  expect_monotonic<f16>();
  expect_monotonic<e4m3>();
  expect_monotonic<e5m2>();
  expect_monotonic<e4m3fnuz>();
  expect_monotonic<e5m2fnuz>();
  expect_monotonic<e2m1>();
}

}  // namespace
}  // namespace jaxator::numeric
