#include "src/numeric/blocks.h"

#include <gtest/gtest.h>

#include "src/numeric/denormals.h"
#include "src/numeric/hadamard.h"

namespace jaxator::numeric {
namespace {

constexpr uint32_t bits(float x) { return __builtin_bit_cast(uint32_t, x); }

// DESIGN.md section 6 names these constants.
static_assert(scale_rounding<e2m1>(ScaleMode::even) == 0x200000 && scale_rounding<e2m1>(ScaleMode::rceil) == 0x3FFFFF);
static_assert(scale_rounding<e4m3>(ScaleMode::rceil) == 0x1FFFFF && scale_rounding<e5m2>(ScaleMode::rceil) == 0x1FFFFF);

// E2M1 at 6, just above, 7 and just below 8.
static_assert(block_scale<e2m1>(bits(6), ScaleMode::floor) == 127 && block_scale<e2m1>(bits(7.99f), ScaleMode::floor) == 127);
static_assert(block_scale<e2m1>(bits(6.99f), ScaleMode::even) == 127 && block_scale<e2m1>(bits(7), ScaleMode::even) == 128);
static_assert(block_scale<e2m1>(bits(6), ScaleMode::rceil) == 127 && block_scale<e2m1>(bits(6.000001f), ScaleMode::rceil) == 128);
static_assert(block_scale<e2m1>(0, ScaleMode::even) == 127 && block_scale<e2m1>(1, ScaleMode::even) == 0);
static_assert(block_scale<e2m1>(0x7F800000, ScaleMode::floor) == 255 && block_scale<e2m1>(0x7F7FFFFF, ScaleMode::even) == 253);

static_assert(decode_e8m0(0) == bits(0x1p-127f) && decode_e8m0(1) == bits(0x1p-126f) && decode_e8m0(254) == bits(0x1p127f));
static_assert(encode_e8m0(bits(1.5f), Overflow::special) == 128 && encode_e8m0(bits(1.49f), Overflow::special) == 127);
static_assert(encode_e8m0(bits(0x1.8p127f), Overflow::special) == 255 &&
              encode_e8m0(bits(0x1.8p127f), Overflow::saturate) == 254);

struct Quantised {
  uint8_t scale;
  uint8_t codes[kBlockBytes<e2m1>];
};
template <class RoundingOf> constexpr Quantised quantised(const uint32_t (&x)[kBlock], RoundingOf rounding_of) {
  Quantised q{};
  q.scale = quantise_block<e2m1, f32>(x, 1, ScaleMode::rceil, rounding_of, q.codes);
  return q;
}

constexpr Quantised ramp() {
  uint32_t x[kBlock]{};
  for (int i = 0; i < kBlock; i++) x[i] = bits(0.5f * static_cast<float>(i % 13));
  return quantised(x, AllNearestEven{});
}
// 0, 0.5 | 1, 1.5 | 2, 2.5 -> 2 | 3, 3.5 -> 4 | 4, 4.5 -> 4 | 5 -> 4, 5.5 -> 6 | 6, 0: even index in the low nibble.
static_assert(ramp().scale == 127 && ramp().codes[0] == 0x10 && ramp().codes[1] == 0x32 && ramp().codes[2] == 0x44);
static_assert(ramp().codes[3] == 0x65 && ramp().codes[4] == 0x66 && ramp().codes[5] == 0x76 && ramp().codes[6] == 0x07);

TEST(NumericBlocks, ABlockWithNanOrInfinityHasNanScaleAndZeroCodes) {
  for (uint32_t special : {0x7FC00000u, 0xFFC00000u, 0x7F800000u, 0xFF800000u, 0x7F800001u}) {
    uint32_t x[kBlock];
    for (uint32_t& value : x) value = bits(3);
    x[17] = special;
    const Quantised q = quantised(x, AllNearestEven{});
    EXPECT_EQ(q.scale, kScaleNan);
    for (uint8_t byte : q.codes) EXPECT_EQ(byte, 0);
    uint16_t y[kBlock];
    dequantise_block<e2m1, bf16>(q.codes, q.scale, y, 1);
    for (uint16_t value : y) EXPECT_EQ(value, 0x7FC0);
  }
}

TEST(NumericBlocks, TheLargestFloatMayLeaveTheRangeOfFloat) {
  uint32_t x[kBlock]{f32.max_code()};
  const Quantised q = quantised(x, AllNearestEven{});
  uint32_t y[kBlock];
  dequantise_block<e2m1, f32>(q.codes, q.scale, y, 1);
  EXPECT_EQ(y[0], 0x7F800000u) << "4 * 2^126";
}

// Random123's known answers for philox4x32-10.
constexpr bool answers(RandomWords counter, Key key, RandomWords want) {
  const RandomWords got = philox4x32_10(counter, key);
  for (int i = 0; i < 4; i++)
    if (got.word[i] != want.word[i]) return false;
  return true;
}
static_assert(answers({}, {}, {{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8}}));
static_assert(answers({{~0u, ~0u, ~0u, ~0u}}, {{~0u, ~0u}}, {{0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD}}));
static_assert(answers({{0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344}}, {{0xA4093822, 0x299F31D0}},
                      {{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1}}));
static_assert(draw<8>({}, Stream::dropout, 0) == 0xD5 && draw<8>({}, Stream::dropout, 5) == 0xC5);
static_assert(draw<16>({}, Stream::dropout, 7) == 0x9B00 && draw<32>({}, Stream::dropout, 3) == 0x9B00DBD8);

constexpr bool hadamard_spreads_one() {
  float x[16]{};
  x[5] = 4;
  hadamard(x, 1u << 5);
  for (int i = 0; i < 16; i++)
    if (x[i] != (__builtin_popcount(i & 5) % 2 != 0 ? 1 : -1)) return false;
  return true;
}
static_assert(hadamard_spreads_one());

TEST(NumericDenormals, TheGuardClearsAndRestores) {
  const uint32_t before = KeepDenormals::control();
  for (uint32_t mode : {0u, KeepDenormals::kFlushToZero, KeepDenormals::kDenormalsAreZero, KeepDenormals::kFlush}) {
    KeepDenormals::set_control((before & ~KeepDenormals::kFlush) | mode);
    {
      const KeepDenormals keep;
      EXPECT_EQ(KeepDenormals::control() & KeepDenormals::kFlush, 0u);
      {
        const KeepDenormals again;
        EXPECT_EQ(KeepDenormals::control() & KeepDenormals::kFlush, 0u);
      }
      EXPECT_EQ(KeepDenormals::control() & KeepDenormals::kFlush, 0u);
    }
    EXPECT_EQ(KeepDenormals::control() & KeepDenormals::kFlush, mode);
  }
  KeepDenormals::set_control(before);
}

}  // namespace
}  // namespace jaxator::numeric
