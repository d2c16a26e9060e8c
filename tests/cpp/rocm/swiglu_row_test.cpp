/// swiglu's kernels for gfx942 and gfx950 on the emulator, with all its checks: values on every path, special values, bytes
/// moved.
#include "jaxator/swiglu.h"

#include "src/ops/swiglu/reference.h"
#include "src/ops/swiglu/rocm_config.h"
#include "tests/cpp/rocm/rows_testing.h"
#include "tests/cpp/shapes.h"

namespace jaxator::rocm::images {
extern const Image swiglu;
}

namespace jaxator::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Problem {
  SwigluDesc desc;
  std::mt19937_64 random{static_cast<uint64_t>(desc.rows * 8191 + desc.columns)};
  TestArray gate = TestArray::normal(desc.type, desc.rows* desc.columns, random, 2);
  TestArray up = TestArray::normal(desc.type, desc.rows* desc.columns, random);
  TestArray dy = TestArray::normal(desc.type, desc.rows* desc.columns, random);

  Problem(DType type, RowShape shape, bool packed, float limit = kInfinity)
      : desc{.type = type, .rows = shape.rows, .columns = shape.columns, .limit = limit, .packed = packed} {}

  int64_t place(int64_t i) const { return i / desc.columns * 2 * desc.columns + i % desc.columns; }
  /// The operand that is called gate: both halves if packed.
  TestArray first() const {
    if (!desc.packed) return gate;
    TestArray both(desc.type, 2 * gate.size());
    for (int64_t i = 0; i < gate.size(); i++)
      both.set(place(i), static_cast<float>(gate[i])), both.set(place(i) + desc.columns, static_cast<float>(up[i]));
    return both;
  }
  /// One half of packed gradients.
  Doubles half(const TestArray& both, int64_t offset) const {
    Doubles out(gate.size());
    for (int64_t i = 0; i < gate.size(); i++) out[i] = both[place(i) + offset];
    return out;
  }
  double u() const { return unit_roundoff(desc.type); }
  /// Relative error before the last rounding: sigmoid's (tile/cdna/math.h) and three products.
  double inside() const { return desc.type == DType::f32 ? 9 * 0x1p-24 : 4e-6; }
  double denormal() const { return desc.type == DType::f16 ? 0x1p-25 : 1e-35; }
};

struct Results {
  TestArray y, first;  // packed: both halves
  Doubles dgate, dup;
};

Results run(int device, const Problem& p, size_t offset = 0) {
  const SwigluDesc& d = p.desc;
  const int64_t size = d.rows * d.columns, first_size = d.packed ? 2 * size : size;
  Results r{TestArray(d.type, size), TestArray(d.type, first_size), {}, {}};
  TestArray second(d.type, size);
  const size_t bytes = size * size_of(d.type), first_bytes = first_size * size_of(d.type);
  const Bytes gate(device, p.first(), true, offset), up(device, p.up, !d.packed, offset), dy(device, p.dy, true, offset);
  const Bytes y(device, bytes, offset), dgate(device, first_bytes, offset), dup(device, d.packed ? 0 : bytes, offset);
  for (bool prepare_only : {true, false}) {
    const RocmStream stream{.device = device, .architecture = rocm_device_architecture(device), .prepare_only = prepare_only};
    swiglu_forward(d, {.gate = gate.data(), .up = up.data(), .y = y.data()}, stream);
    swiglu_backward(d, {.gate = gate.data(), .up = up.data(), .dy = dy.data(), .dgate = dgate.data(), .dup = dup.data()}, stream);
  }
  y.read(r.y), dgate.read(r.first), dup.read(second);
  r.dgate = d.packed ? p.half(r.first, 0) : r.first.values();
  r.dup = d.packed ? p.half(r.first, d.columns) : second.values();
  return r;
}

void expect_right(int device, const Problem& p, size_t offset = 0) {
  const SwigluDesc& d = p.desc;
  SCOPED_TRACE(std::string(name_of(d.type)) + " " + std::to_string(d.rows) + "x" + std::to_string(d.columns) +
               (d.packed ? " packed" : "") + " limit " + std::to_string(d.limit));
  const Results got = run(device, p, offset);
  const Doubles y = reference::swiglu(p.gate.values(), p.up.values(), d.limit);
  expect_within(got.y, y, [&](size_t i) { return (p.u() + p.inside()) * std::fabs(y[i]) + p.denormal(); }, "y");
  const auto want = reference::swiglu_gradients(p.gate.values(), p.up.values(), p.dy.values(), d.limit);
  // 1 + g * (1 - s) cancels near g = -1.28, so its error is relative to its terms.
  const auto terms = [&](size_t i) {
    const double g = std::min<double>(p.gate[i], d.limit), s = reference::sigmoid(g);
    return std::fabs(p.dy[i] * p.up[i]) * s * (1 + std::fabs(g));
  };
  expect_within(
      got.dgate, want.dgate,
      [&](size_t i) { return p.u() * std::fabs(want.dgate[i]) + 2 * p.inside() * terms(i) + p.denormal(); }, "dgate");
  expect_within(got.dup, want.dup, [&](size_t i) { return (p.u() + p.inside()) * std::fabs(want.dup[i]) + p.denormal(); }, "dup");
}

class RocmSwiglu : public RocmRows {};
INSTANTIATE_TEST_SUITE_P(Every, RocmSwiglu, ::testing::ValuesIn(kDevices), architecture_of);

TEST_P(RocmSwiglu, EveryShape) {
  for (DType type : kDTypes)
    for (RowShape shape : kRowShapes)
      for (bool packed : {false, true}) expect_right(GetParam(), Problem(type, shape, packed, packed ? 1.5f : kInfinity));
}

TEST_P(RocmSwiglu, EveryPath) {
  // Packed rows of several pieces, of many rows a block with a last block that is not full, of the units of one wave and one
  // more.
  constexpr RowShape kShapes[] = {{2, 14336}, {3, 4104}, {71, 24}, {5, 1024}, {5, 1032}, {1, 8}};
  for (DType type : {DType::f32, DType::bf16})
    for (RowShape shape : kShapes)
      for (bool packed : {false, true}) expect_right(GetParam(), Problem(type, shape, packed, 1.5f));
}

TEST_P(RocmSwiglu, ArraysAtAnyAddress) {
  for (DType type : kDTypes)
    for (bool packed : {false, true}) expect_right(GetParam(), Problem(type, {5, 128}, packed), size_of(type));
}

TEST_P(RocmSwiglu, SiluIsAccurateEverywhere) {
  // Both signs of 64 numbers from each binade between 2^-140 and 2^127.
  constexpr int kBinades = 267, kEach = 64;
  Problem p(DType::f32, {1, 2 * kBinades * kEach}, false);
  for (int64_t i = 0; i < p.gate.size(); i++) {
    const double magnitude = std::ldexp(1 + (i % kEach * 131071 % (1 << 23)) * 0x1p-23, static_cast<int>(i / (2 * kEach)) - 140);
    p.gate.set(i, static_cast<float>(i / kEach % 2 ? -magnitude : magnitude));
    p.up.set(i, 1);
  }
  const Results got = run(GetParam(), p);
  const Doubles want = reference::swiglu(p.gate.values(), p.up.values(), kInfinity);
  // Below 2^-126 the sigmoid is 0, of a gate of at most 88.8.
  expect_within(got.y, want, [&](size_t i) { return p.inside() * std::fabs(want[i]) + 100 * 0x1p-125; }, "silu");
}

TEST_P(RocmSwiglu, SpecialValues) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float gate[] = {0, -1e30f, 1e30f, kInfinity, nan, -kInfinity, 7, 8, 1, 1, 1, nan};
  const float up[] = {1, 1, 1, 1, 1, 1, 1, 1, 7, 8, -8, 8}, dy[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, nan};
  for (float limit : {kInfinity, 7.0f}) {
    Problem p(DType::f32, {1, 12}, false, limit);
    for (int i = 0; i < 12; i++) p.gate.set(i, gate[i]), p.up.set(i, up[i]), p.dy.set(i, dy[i]);
    const Results r = run(GetParam(), p);
    EXPECT_TRUE(std::isnan(r.y[4]));
    if (limit == kInfinity) {
      EXPECT_EQ(r.y[0], 0.0f);
      EXPECT_EQ(r.y[1], 0.0f);
      EXPECT_EQ(r.y[2], 1e30f);
      EXPECT_EQ(r.y[3], kInfinity);
      EXPECT_TRUE(std::isnan(r.y[5]));
      continue;
    }
    EXPECT_EQ(r.y[2], r.y[6]);
    EXPECT_EQ(r.y[3], r.y[6]);
    EXPECT_EQ(r.y[8], r.y[9]);
    EXPECT_EQ(r.y[9], -r.y[10]);
    EXPECT_NE(r.dgate[6], 0.0);  // a gate at the limit is not cut
    EXPECT_EQ(r.dgate[7], 0.0);
    EXPECT_EQ(r.dgate[2], 0.0);
    EXPECT_NE(r.dup[8], 0.0);
    for (int cut : {9, 10, 11}) EXPECT_EQ(r.dup[cut], 0.0);  // the last by selection, not by multiplication
    EXPECT_TRUE(std::isnan(r.dgate[4]) && std::isnan(r.dgate[11]));
  }
}

TEST_P(RocmSwiglu, MovesNoByteTwice) {
  constexpr int64_t kRows = 2, kColumns = 4096, kSize = kRows * kColumns * 2;
  alignas(16) static char gate[2 * kSize], up[kSize], dy[kSize], dgate[2 * kSize], dup[kSize];
  const Arrays arrays{{gate, sizeof gate}, {up, sizeof up}, {dy, sizeof dy}, {dgate, sizeof dgate}, {dup, sizeof dup}};
  for (bool packed : {false, true}) {
    const SwigluDesc desc{.type = DType::bf16, .rows = kRows, .columns = kColumns, .packed = packed};
    const SwigluRocmConfig config = pick_rocm_config(desc, true);
    const rocm::Geometry geometry{.grid = {config.blocks, config.pieces, 1}, .block = {config.threads, config.rows_per_block, 1}};
    const cdna::SwigluShape shape{.rows = config.rows,
                                  .operand_stride = packed ? 2 * config.stride : config.stride,
                                  .result_stride = config.stride,
                                  .units = static_cast<unsigned>(config.units),
                                  .last_units = static_cast<unsigned>(config.last_units),
                                  .limit = kInfinity};
    const int64_t blocks = config.blocks * config.pieces, half = kColumns * 2;
    const cdna::SwigluForward f{.gate = gate, .up = packed ? gate + half : up, .y = dy, .shape = shape};
    const cdna::SwigluBackward b{.gate = gate,
                                 .up = packed ? gate + half : up,
                                 .dy = dy,
                                 .dgate = dgate,
                                 .dup = packed ? dgate + half : dup,
                                 .shape = shape};
    const rocm::Image& image = rocm::images::swiglu;
    EXPECT_EQ(bytes_of_block(GetParam(), image, "swiglu_forward_bf16", Traced{geometry, 64}, f, arrays), 3 * kSize / blocks);
    EXPECT_EQ(bytes_of_block(GetParam(), image, "swiglu_backward_bf16", Traced{geometry, 96}, b, arrays), 5 * kSize / blocks);
  }
}

TEST_F(Rocm, BadSwiglusAreRefused) {
  const RocmStream stream{.prepare_only = true};
  EXPECT_EQ(error_of([&] { swiglu_forward({.rows = -1}, {}, stream); }), "rows=-1: must not be negative");
  EXPECT_EQ(error_of([&] { swiglu_backward({.rows = 1, .columns = int64_t{1} << 29, .packed = true}, {}, stream); }),
            "columns=536870912: must be at most 268435456 if packed");
}

}  // namespace
}  // namespace jaxator::testing
