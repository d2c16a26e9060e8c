#include "jaxator/rope.h"

#include "src/ops/rope/reference.h"
#include "tests/cpp/streamed.h"
#include "tests/cpp/testing.h"

namespace jaxator::testing {
namespace {

struct RopeShape {
  int64_t rows, heads, columns, angle_rows;
};

/// 0, 1, odd and prime counts; heads of real models (64, 80, 96, 128, 256), smaller than a vector, longer than the 1024 columns
/// whose angles are held at a time; a batch that shares its positions.
constexpr RopeShape kShapes[] = {
    {0, 4, 64, 0}, {3, 0, 64, 3}, {3, 2, 0, 3},     {1, 1, 2, 1},   {5, 3, 6, 5},    {7, 1, 34, 7},   {3, 2, 64, 3},
    {4, 5, 80, 2}, {6, 3, 96, 2}, {33, 8, 128, 11}, {2, 1, 256, 2}, {2, 2, 1022, 1}, {3, 1, 2500, 3},
};

struct Problem {
  RopeDesc desc;
  TestArray x, cosine, sine;
  std::vector<int32_t> positions;

  Problem(DType type, RopeShape shape, bool interleaved, bool inverse, bool has_tables, double theta = 10000)
      : Problem(RopeDesc{.type = type,
                         .rows = shape.rows,
                         .heads = shape.heads,
                         .columns = shape.columns,
                         .angle_rows = shape.angle_rows,
                         .theta = theta,
                         .interleaved = interleaved,
                         .inverse = inverse,
                         .has_tables = has_tables},
                std::mt19937_64(shape.rows * 8191 + shape.columns)) {}

  Problem(RopeDesc d, std::mt19937_64 random)
      : desc(d),
        x(TestArray::normal(d.type, d.rows * d.heads * d.columns, random)),
        cosine(TestArray::normal(DType::f32, d.angle_rows * d.columns / 2, random)),
        sine(TestArray::normal(DType::f32, d.angle_rows * d.columns / 2, random)) {
    for (int64_t r = 0; r < d.angle_rows; r++) positions.push_back(static_cast<int32_t>(random() % 131072));
  }
};

TestArray run(const Problem& p, Executor& executor) {
  TestArray y(p.desc.type, p.x.size());
  rope(p.desc,
       {.x = p.x.data(),
        .positions = p.desc.has_tables ? nullptr : p.positions.data(),
        .cosine = p.desc.has_tables ? static_cast<const float*>(p.cosine.data()) : nullptr,
        .sine = p.desc.has_tables ? static_cast<const float*>(p.sine.data()) : nullptr,
        .y = y.data()},
       executor);
  return y;
}

void expect_rotated(const Problem& p, Executor& executor) {
  const TestArray y = run(p, executor);
  EXPECT_TRUE(y.canaries_intact());
  const RopeDesc& d = p.desc;
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

TEST(Rope, MatchesReference) {
  for_each_isa([] {
    SerialExecutor executor;
    for (DType type : kDTypes)
      for (RopeShape shape : kShapes)
        for (bool interleaved : {false, true})
          for (bool inverse : {false, true})
            for (bool has_tables : {false, true}) {
              SCOPED_TRACE(std::string(name_of(type)) + " " + std::to_string(shape.rows) + "x" + std::to_string(shape.heads) +
                           "x" + std::to_string(shape.columns) + (interleaved ? " interleaved" : "") +
                           (inverse ? " inverse" : "") + (has_tables ? " tables" : ""));
              expect_rotated(Problem(type, shape, interleaved, inverse, has_tables), executor);
            }
  });
}

TEST(Rope, EveryPositionIsAccurate) {
  for_each_isa([] {
    SerialExecutor executor;
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
      expect_rotated(p, executor);
    }
  });
}

TEST(Rope, InverseUndoesTheRotation) {
  SerialExecutor executor;
  for (bool interleaved : {false, true}) {
    Problem p(DType::f32, {33, 8, 128, 11}, interleaved, false, false);
    const TestArray x = p.x;
    p.x = run(p, executor);
    p.desc.inverse = true;
    // Two rotations, each with an error of 4 ulp of the length of the pair, which is at most the sum of its largest members.
    expect_within(run(p, executor), x.values(), [&](size_t) { return 2 * 4 * 0x1p-23 * 6; }, "x");
  }
}

TEST(Rope, BitsDoNotDependOnThreads) {
  for (DType type : kDTypes)
    for (bool interleaved : {false, true}) {
      const Problem p(type, {330, 8, 128, 11}, interleaved, false, false);
      SerialExecutor serial;
      const TestArray one = run(p, serial);
      for (int threads : {2, 3, 7}) {
        ThreadPool pool(threads);
        EXPECT_EQ(one.bytes(), run(p, pool).bytes());
      }
    }
}

TEST(Rope, StreamedStoresGiveTheSameBits) {
  SerialExecutor executor;
  const int32_t position = 5000;  // of every row
  for_each_isa([&] {
    for (int64_t offset : {0, 2, 12})
      for (bool interleaved : {false, true}) {
        const auto op = [&](int64_t rows, const auto& in, const auto& out) {
          rope({.type = DType::bf16, .rows = rows, .heads = 4, .columns = 160, .angle_rows = 1, .interleaved = interleaved},
               {.x = in[0], .positions = &position, .cosine = nullptr, .sine = nullptr, .y = out[0]}, executor);
        };
        expect_same_bits_when_streamed({{1280}, {1280}}, offset, op);
      }
  });
}

TEST(Rope, BadRequestsAreNamed) {
  SerialExecutor executor;
  const auto message = [&](RopeDesc desc) -> std::string {
    try {
      rope(desc, {}, executor);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message({.rows = -1}), "rows=-1: must not be negative");
  EXPECT_EQ(message({.rows = 1, .heads = -2}), "heads=-2: must not be negative");
  EXPECT_EQ(message({.rows = 1, .heads = 1, .columns = 7}), "columns=7: must be even and not negative");
  EXPECT_EQ(message({.rows = 6, .heads = 1, .columns = 8, .angle_rows = 4}), "angle_rows=4: must divide rows=6");
  EXPECT_EQ(message({.rows = 6, .heads = 1, .columns = 8, .angle_rows = 0}), "angle_rows=0: must divide rows=6");
  EXPECT_EQ(message({.theta = 0.5}), "theta=0.500000: must be finite and at least 1");
}

}  // namespace
}  // namespace jaxator::testing
