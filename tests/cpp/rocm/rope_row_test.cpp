/// rope's kernels for gfx942 and gfx950 on the emulator, with all its checks: values on every path, accuracy, bytes moved.
#include "jaxator/rope.h"

#include "src/ops/rope/reference.h"
#include "src/ops/rope/rocm_config.h"
#include "tests/cpp/rocm/rows_testing.h"

namespace jaxator::rocm::images {
extern const Image rope;
}

namespace jaxator::testing {
namespace {

struct RopeShape {
  int64_t rows, heads, columns, angle_rows;
};

/// 0, 1, odd and prime counts; heads of real models (64, 80, 96, 128, 256), smaller than a vector, longer than the 1024 columns
/// whose angles a block holds; a batch that shares its positions; more heads and rows than a block has at once.
constexpr RopeShape kShapes[] = {
    {0, 4, 64, 0},   {3, 0, 64, 3},   {3, 2, 0, 3},   {1, 1, 2, 1},     {5, 3, 6, 5},     {7, 1, 34, 7},
    {3, 2, 64, 3},   {4, 5, 80, 2},   {6, 3, 96, 2},  {33, 8, 128, 11}, {2, 1, 256, 2},   {2, 2, 1022, 1},
    {3, 1, 2512, 3}, {2, 1, 2500, 2}, {2, 71, 64, 1}, {150, 1, 16, 50}, {300, 1, 2, 100},
};

struct Problem {
  RopeDesc desc;
  std::mt19937_64 random{static_cast<uint64_t>(desc.rows * 8191 + desc.columns)};
  TestArray x = TestArray::normal(desc.type, desc.rows* desc.heads* desc.columns, random);
  TestArray cosine = TestArray::normal(DType::f32, desc.angle_rows* desc.columns / 2, random);
  TestArray sine = TestArray::normal(DType::f32, desc.angle_rows* desc.columns / 2, random);
  std::vector<int32_t> positions;

  Problem(DType type, RopeShape shape, bool interleaved, bool inverse, bool has_tables, double theta = 10000)
      : desc{.type = type,
             .rows = shape.rows,
             .heads = shape.heads,
             .columns = shape.columns,
             .angle_rows = shape.angle_rows,
             .theta = theta,
             .interleaved = interleaved,
             .inverse = inverse,
             .has_tables = has_tables} {
    for (int64_t r = 0; r < desc.angle_rows; r++) positions.push_back(static_cast<int32_t>(random() % 131072));
  }
};

TestArray run(int device, const Problem& p, size_t offset = 0) {
  const RopeDesc& d = p.desc;
  TestArray y(d.type, p.x.size());
  const Bytes x(device, p.x, true, offset), cosine(device, p.cosine, d.has_tables), sine(device, p.sine, d.has_tables);
  const size_t position_bytes = d.has_tables ? 0 : p.positions.size() * 4;
  const Bytes positions(device, position_bytes), out(device, p.x.size() * size_of(d.type), offset);
  if (position_bytes > 0) expect_ok(hipMemcpy(positions.data(), p.positions.data(), position_bytes, hipMemcpyHostToDevice));
  for (bool prepare_only : {true, false})
    rope(d,
         {.x = x.data(),
          .positions = static_cast<const int32_t*>(positions.data()),
          .cosine = cosine.floats(),
          .sine = sine.floats(),
          .y = out.data()},
         {.device = device, .architecture = rocm_device_architecture(device), .prepare_only = prepare_only});
  out.read(y);
  return y;
}

void expect_rotated(int device, const Problem& p, size_t offset = 0) {
  const RopeDesc& d = p.desc;
  SCOPED_TRACE(std::string(name_of(d.type)) + " " + std::to_string(d.rows) + "x" + std::to_string(d.heads) + "x" +
               std::to_string(d.columns) + (d.interleaved ? " interleaved" : "") + (d.inverse ? " inverse" : "") +
               (d.has_tables ? " tables" : ""));
  const TestArray y = run(device, p, offset);
  Doubles cosine, sine;
  if (d.has_tables)
    cosine = p.cosine.values(), sine = p.sine.values();
  else
    reference::rope_tables(p.positions, d.columns, d.theta, &cosine, &sine);
  const Doubles want =
      reference::rope(p.x.values(), cosine, sine, d.rows, d.heads, d.columns, d.angle_rows, d.interleaved, d.inverse);
  // The sum of the absolute terms: the same rotation of |x| by |cos| and -|sin| or |sin|.
  const auto absolute = [](Doubles values) {
    for (double& v : values) v = std::fabs(v);
    return values;
  };
  const Doubles size = absolute(p.x.values());
  const Doubles ones(cosine.size(), 1), c = d.has_tables ? absolute(cosine) : ones, s = d.has_tables ? absolute(sine) : ones;
  const Doubles plus = reference::rope(size, c, s, d.rows, d.heads, d.columns, d.angle_rows, d.interleaved, false);
  const Doubles minus = reference::rope(size, c, s, d.rows, d.heads, d.columns, d.angle_rows, d.interleaved, true);
  // cos and sin are within 2 ulp of 1 (tables are exact), and a term has two roundings.
  const double inside = (d.has_tables ? 0 : 1.2e-7) + 2 * 0x1p-24, denormal = d.type == DType::f16 ? 0x1p-25 : 1e-37;
  expect_within(
      y, want,
      [&](size_t i) { return unit_roundoff(d.type) * std::fabs(want[i]) + inside * std::max(plus[i], minus[i]) + denormal; },
      "y");
}

class RocmRope : public RocmRows {};
INSTANTIATE_TEST_SUITE_P(Every, RocmRope, ::testing::ValuesIn(kDevices), architecture_of);

TEST_P(RocmRope, EveryShape) {
  for (DType type : kDTypes)
    for (RopeShape shape : kShapes)
      for (bool interleaved : {false, true})
        for (bool has_tables : {false, true})
          expect_rotated(GetParam(), Problem(type, shape, interleaved, /*inverse=*/interleaved != has_tables, has_tables));
}

TEST_P(RocmRope, ArraysAtAnyAddress) {
  for (DType type : kDTypes)
    for (bool interleaved : {false, true})
      expect_rotated(GetParam(), Problem(type, {5, 3, 64, 5}, interleaved, true, false), size_of(type));
}

TEST_P(RocmRope, EveryPositionIsAccurate) {
  for (double theta : {1.0, 10000.0, 500000.0, 1e7, 1e30}) {
    Problem p(DType::f32, {9, 1, 128, 9}, false, false, false, theta);
    p.positions = {0,
                   1,
                   -1,
                   65537,
                   1 << 24,
                   -(1 << 24) - 1,
                   1 << 30,
                   std::numeric_limits<int32_t>::max(),
                   std::numeric_limits<int32_t>::min()};
    SCOPED_TRACE("theta " + std::to_string(theta));
    expect_rotated(GetParam(), p);
  }
}

TEST_P(RocmRope, SineAndCosineAreWithinTwoUlpOfOne) {
  // Pairs (1, 0) become (cos, sin), without another rounding. Near 2^31 half an ulp of the frequency alone would count 1.3e-7.
  constexpr int64_t kRows = 64, kColumns = 128;
  for (double theta : {1.0, 10000.0}) {
    Problem p(DType::f32, {kRows, 1, kColumns, kRows}, false, false, false, theta);
    for (int64_t r = 0; r < kRows; r++) {
      p.positions[r] = std::numeric_limits<int32_t>::max() - static_cast<int32_t>(r * 9973);
      for (int64_t c = 0; c < kColumns; c++) p.x.set(r * kColumns + c, c < kColumns / 2 ? 1 : 0);
    }
    Doubles cosine, sine, want;
    reference::rope_tables(p.positions, kColumns, theta, &cosine, &sine);
    for (int64_t r = 0; r < kRows; r++)
      for (const Doubles& half : {cosine, sine})
        want.insert(want.end(), half.begin() + r * kColumns / 2, half.begin() + (r + 1) * kColumns / 2);
    expect_within(run(GetParam(), p), want, [](size_t) { return 1.2e-7; }, "cos and sin");
  }
}

TEST_P(RocmRope, BitsDoNotDependOnTheOrderOfWaves) {
  const Problem p(DType::bf16, {33, 8, 128, 11}, false, false, false);
  const TestArray first = run(GetParam(), p);
  for (uint64_t seed : {1, 2, 3}) {
    configure(emulator::kWaits | emulator::kRaces | emulator::kPoison, seed);
    EXPECT_EQ(first.bytes(), run(GetParam(), p).bytes());
  }
}

TEST_P(RocmRope, MovesNoByteTwice) {
  // Elements come by 16 bytes a lane, the caller's tables by 4.
  constexpr int64_t kRows = 4, kHeads = 32, kColumns = 128, kSize = kRows * kHeads * kColumns * 2;
  alignas(16) static char x[kSize], y[kSize];
  alignas(16) static float cosine[kRows * kColumns / 2], sine[kRows * kColumns / 2];
  const Arrays arrays{{x, kSize}, {y, kSize}, {cosine, sizeof cosine}, {sine, sizeof sine}};
  for (bool interleaved : {false, true}) {
    const RopeDesc desc{.type = DType::bf16, .rows = kRows, .heads = kHeads, .columns = kColumns, .angle_rows = kRows};
    const RopeRocmConfig config = pick_rocm_config(desc, true);
    ASSERT_EQ(config.rows_per_block(), 2);
    const rocm::Geometry geometry{.grid = {config.blocks, config.turns, 1},
                                  .block = {config.unit_threads, config.heads, config.rows},
                                  .shared_bytes = config.shared_bytes};
    const cdna::Rope p{.x = x,
                       .positions = nullptr,
                       .cosine = cosine,
                       .sine = sine,
                       .y = y,
                       .rows = kRows,
                       .angle_rows = kRows,
                       .heads = kHeads,
                       .pairs = kColumns / 2,
                       .interleaved = interleaved,
                       .inverse = false,
                       .first = {},
                       .powers = {}};
    const uint64_t tables = 2 * sizeof(float) * config.rows_per_block() * kColumns / 2;
    EXPECT_EQ(bytes_of_block(GetParam(), rocm::images::rope, "rope_bf16", Traced{geometry, 64, 1, 256}, p, arrays),
              2 * kSize / config.blocks + tables);
  }
}

TEST_F(Rocm, BadRopesAreRefused) {
  const RocmStream stream{.prepare_only = true};
  EXPECT_EQ(error_of([&] { rope({.rows = 1, .heads = 1, .columns = 7}, {}, stream); }),
            "columns=7: must be even and not negative");
  EXPECT_EQ(error_of([&] { rope({.rows = 1, .heads = 1 << 20, .columns = 512, .angle_rows = 1}, {}, stream); }),
            "heads * columns=536870912: must be at most 268435456");
}

}  // namespace
}  // namespace jaxator::testing
