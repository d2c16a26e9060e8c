/// rms_norm's kernels for gfx942 and gfx950 on the emulator, with all its checks: values on every path, bytes moved, determinism.
#include "jaxator/rms_norm.h"

#include "src/ops/norm_rocm.h"
#include "src/ops/rms_norm/cdna.h"
#include "src/ops/rms_norm/reference.h"
#include "tests/cpp/rocm/rows_testing.h"
#include "tests/cpp/shapes.h"

namespace jaxator::rocm::images {
extern const Image rms_norm_forward, rms_norm_backward;
}

namespace jaxator::testing {
namespace {

struct Problem {
  RmsNormDesc desc;
  std::mt19937_64 random{static_cast<uint64_t>(desc.rows * 8191 + desc.columns)};
  TestArray x = TestArray::normal(desc.type, desc.rows* desc.columns, random);
  TestArray residual = TestArray::normal(desc.type, desc.rows* desc.columns, random);
  TestArray weight = TestArray::normal(DType::f32, desc.columns, random);
  TestArray dy = TestArray::normal(desc.type, desc.rows* desc.columns, random);

  Doubles weights() const { return desc.has_weight ? weight.values() : Doubles{}; }
};

struct Results {
  TestArray y, sum, dx, dweight;
};

/// Both directions; the gradient that reaches the sum is the residual again.
Results run(int device, const Problem& p, size_t offset = 0) {
  const RmsNormDesc& d = p.desc;
  const int64_t size = d.rows * d.columns;
  const size_t bytes = size * size_of(d.type);
  Results r{TestArray(d.type, size), TestArray(d.type, size), TestArray(d.type, size), TestArray(DType::f32, d.columns)};
  const Bytes x(device, p.x, true, offset), residual(device, p.residual, d.has_residual, offset), dy(device, p.dy, true, offset);
  const Bytes weight(device, p.weight, d.has_weight), y(device, bytes, offset), dx(device, bytes, offset);
  const Bytes sum(device, d.has_residual ? bytes : 0, offset), dweight(device, d.has_weight ? d.columns * 4 : 0);
  const Bytes scratch(device, rms_norm_rocm_scratch_floats(d) * 4);
  for (bool prepare_only : {true, false}) {
    const RocmStream stream{.device = device, .architecture = rocm_device_architecture(device), .prepare_only = prepare_only};
    rms_norm_forward(d, {x.data(), residual.data(), weight.floats(), y.data(), sum.data()}, stream);
    rms_norm_backward(d,
                      {.sum = d.has_residual ? sum.data() : x.data(),
                       .weight = weight.floats(),
                       .dy = dy.data(),
                       .dsum = residual.data(),
                       .dx = dx.data(),
                       .dweight = dweight.floats(),
                       .scratch = scratch.floats()},
                      stream);
  }
  y.read(r.y), sum.read(r.sum), dx.read(r.dx), dweight.read(r.dweight);
  if (!d.has_residual) r.sum = p.x;
  return r;
}

/// Against float64 of the rounded sum. Float32 inside: sums of up to columns / 64 + 8 terms in a row.
void expect_right(const Problem& p, const Results& got) {
  const RmsNormDesc& d = p.desc;
  const double u = unit_roundoff(d.type), inside = (d.columns / 64.0 + 16) * 0x1p-24;
  if (d.has_residual) {
    Doubles sum(p.x.size());
    for (int64_t i = 0; i < p.x.size(); i++) sum[i] = p.x[i] + p.residual[i];
    expect_within(got.sum, sum, [&](size_t i) { return u * std::fabs(sum[i]) * 1.001 + 1e-30; }, "sum");
  }
  const Doubles y = reference::rms_norm(got.sum.values(), p.weights(), d.rows, d.columns, d.epsilon);
  expect_within(got.y, y, [&](size_t i) { return (u + inside) * std::fabs(y[i]) + 1e-7; }, "y");
  const auto want = reference::rms_norm_gradients(got.sum.values(), p.weights(), p.dy.values(),
                                                  d.has_residual ? p.residual.values() : Doubles{}, d.rows, d.columns, d.epsilon);
  Doubles terms(p.x.size()), magnitude(d.columns);
  for (int64_t r = 0; r < d.rows; r++) {
    double squares = 0, along = 0;
    const auto g = [&](int64_t c) { return std::fabs(p.dy[r * d.columns + c] * (d.has_weight ? p.weight[c] : 1)); };
    for (int64_t c = 0; c < d.columns; c++) {
      const double s = got.sum[r * d.columns + c];
      squares += s * s, along += g(c) * std::fabs(s);
    }
    const double scale = 1 / std::sqrt(squares / d.columns + d.epsilon);
    for (int64_t c = 0; c < d.columns; c++) {
      const int64_t i = r * d.columns + c;
      const double s = std::fabs(got.sum[i]);
      terms[i] = scale * g(c) + s * scale * scale * scale * along / d.columns + std::fabs(p.residual[i]);
      magnitude[c] += std::fabs(p.dy[i]) * s * scale;
    }
  }
  expect_within(got.dx, want.dx, [&](size_t i) { return u * std::fabs(want.dx[i]) + inside * terms[i] + 1e-7; }, "dx");
  if (d.has_weight)
    expect_within(
        got.dweight, want.dweight, [&](size_t c) { return (d.rows + 16 + d.columns / 64.0) * 0x1p-24 * magnitude[c] + 1e-30; },
        "dweight");
}

RmsNormDesc desc_of(DType type, RowShape shape, bool both) {
  return {.type = type,
          .rows = shape.rows,
          .columns = shape.columns,
          .epsilon = 1e-5f,
          .has_residual = both,
          .has_weight = both || shape.columns % 2 == 0};
}

class RocmRmsNorm : public RocmRows {};
INSTANTIATE_TEST_SUITE_P(Every, RocmRmsNorm, ::testing::ValuesIn(kDevices), architecture_of);

TEST_P(RocmRmsNorm, EveryShape) {
  for (DType type : kDTypes)
    for (RowShape shape : kRowShapes)
      for (bool both : {false, true}) {
        SCOPED_TRACE(std::string(name_of(type)) + " " + std::to_string(shape.rows) + "x" + std::to_string(shape.columns));
        const Problem p{desc_of(type, shape, both)};
        expect_right(p, run(GetParam(), p));
      }
}

TEST_P(RocmRmsNorm, EveryPath) {
  // Rows of a wave in many blocks; the ends of one vector a thread, of four, of the registers; element by element.
  constexpr RowShape kShapes[] = {{1300, 64}, {9, 504},   {2, 4096},  {2, 4104},  {3, 8192},
                                  {2, 8200},  {2, 16384}, {1, 16392}, {1, 32768}, {1, 32776}};
  for (DType type : {DType::f32, DType::bf16})
    for (RowShape shape : kShapes) {
      SCOPED_TRACE(std::string(name_of(type)) + " " + std::to_string(shape.rows) + "x" + std::to_string(shape.columns));
      const Problem p{desc_of(type, shape, true)};
      expect_right(p, run(GetParam(), p));
    }
}

TEST_P(RocmRmsNorm, ArraysAtAnyAddress) {
  for (DType type : kDTypes) {
    const Problem p{desc_of(type, {5, 128}, true)};
    expect_right(p, run(GetParam(), p, size_of(type)));
  }
}

TEST_P(RocmRmsNorm, BitsDoNotDependOnTheOrderOfWaves) {
  const Problem p{desc_of(DType::bf16, {40, 1024}, true)};
  const Results first = run(GetParam(), p);
  for (uint64_t seed : {1, 2, 3}) {
    configure(0, seed);
    const Results again = run(GetParam(), p);
    EXPECT_EQ(first.y.bytes(), again.y.bytes());
    EXPECT_EQ(first.dx.bytes(), again.dx.bytes());
    EXPECT_EQ(first.dweight.bytes(), again.dweight.bytes());
  }
}

TEST_P(RocmRmsNorm, SmallAndLargeNumbers) {
  // The square of 1e-19 is subnormal, the sum of those of 1e18 near the end of float32.
  for (float value : {0.0f, 1e-19f, 1e-12f, 1e18f}) {
    RmsNormDesc d = desc_of(DType::f32, {4, 64}, false);
    d.epsilon = value == 0 ? 1e-6f : 0;
    Problem p{d};
    for (int64_t i = 0; i < p.x.size(); i++) p.x.set(i, value * (i % 2 == 0 ? 1.0f : -1.0f));
    const Results got = run(GetParam(), p);
    for (int64_t i = 0; i < p.x.size(); i++) {
      const double want = (value == 0 ? 0 : i % 2 == 0 ? 1.0 : -1.0) * p.weight[i % 64];
      ASSERT_NEAR(got.y[i], want, 4e-7 * std::fabs(want)) << value;
    }
  }
}

TEST_P(RocmRmsNorm, MovesNoByteTwice) {
  constexpr int64_t kRows = 3, kColumns = 4096, kRow = kColumns * 2;
  alignas(16) static char x[kRows * kRow], residual[kRows * kRow], y[kRows * kRow], sum[kRows * kRow];
  alignas(16) static float weight[kColumns], partials[kRows * kColumns];
  const Arrays arrays{{x, sizeof x},     {residual, sizeof residual}, {y, sizeof y},
                      {sum, sizeof sum}, {weight, sizeof weight},     {partials, sizeof partials}};
  const NormRocmConfig forward = norm_rocm::forward(DType::bf16, kRows, kColumns, {});
  const cdna::RmsNormForward f{.x = x,
                               .residual = residual,
                               .weight = weight,
                               .y = y,
                               .sum = sum,
                               .rows = kRows,
                               .columns = kColumns,
                               .inverse_columns = 1.0f / kColumns,
                               .epsilon = 1e-5f};
  const uint64_t moved = bytes_of_block(GetParam(), rocm::images::rms_norm_forward, "rms_norm_forward4_bf16",
                                        Traced{forward.geometry(), 128}, f, arrays);
  EXPECT_EQ(moved, 4 * kRow + sizeof weight);
  const NormRocmConfig backward = norm_rocm::backward(DType::bf16, kRows, kColumns, true);
  const cdna::RmsNormBackward b{.sum = x,
                                .weight = weight,
                                .dy = residual,
                                .dsum = sum,
                                .dx = y,
                                .partials = partials,
                                .rows = kRows,
                                .columns = kColumns,
                                .groups = static_cast<unsigned>(backward.groups()),
                                .inverse_columns = 1.0f / kColumns,
                                .epsilon = 1e-5f};
  const uint64_t moved_back = bytes_of_block(GetParam(), rocm::images::rms_norm_backward, "rms_norm_backward1_bf16",
                                             Traced{backward.geometry(), 48}, b, arrays);
  // The loads of the row after the last find empty descriptors.
  EXPECT_EQ(moved_back, 4 * kRow + 2 * sizeof weight);
}

TEST_F(Rocm, BadDescriptionsAreRefused) {
  const RocmStream stream{.prepare_only = true};
  EXPECT_EQ(error_of([&] { rms_norm_forward({.rows = -1}, {}, stream); }), "rows=-1: must not be negative");
  EXPECT_EQ(error_of([&] { rms_norm_backward({.rows = 1, .columns = int64_t{1} << 30}, {}, stream); }),
            "columns=1073741824: must be at most 1073741823");
}

}  // namespace
}  // namespace jaxator::testing
