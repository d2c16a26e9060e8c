/// layer_norm's kernels for gfx942 and gfx950 on the emulator, with all its checks: values on every path, bytes moved,
/// determinism.
#include "jaxator/layer_norm.h"

#include "src/ops/layer_norm/cdna.h"
#include "src/ops/layer_norm/reference.h"
#include "src/ops/norm_rocm.h"
#include "tests/cpp/rocm/rows_testing.h"
#include "tests/cpp/shapes.h"

namespace jaxator::rocm::images {
extern const Image layer_norm_forward, layer_norm_backward;
}

namespace jaxator::testing {
namespace {

struct Problem {
  LayerNormDesc desc;
  std::mt19937_64 random{static_cast<uint64_t>(desc.rows * 8191 + desc.columns)};
  TestArray x = TestArray::normal(desc.type, desc.rows* desc.columns, random);
  TestArray weight = TestArray::normal(DType::f32, desc.columns, random);
  TestArray bias = TestArray::normal(DType::f32, desc.columns, random);
  TestArray dy = TestArray::normal(desc.type, desc.rows* desc.columns, random);

  Problem(DType type, RowShape shape, bool has_weight, bool has_bias)
      : desc{.type = type,
             .rows = shape.rows,
             .columns = shape.columns,
             .epsilon = 1e-5f,
             .has_weight = has_weight,
             .has_bias = has_bias} {}

  Doubles weights() const { return desc.has_weight ? weight.values() : Doubles{}; }
  Doubles biases() const { return desc.has_bias ? bias.values() : Doubles{}; }
  /// Float32 inside: sums of up to columns / 64 + 8 terms in a row, then a few operations on each element.
  double inside() const { return (desc.columns / 64.0 + 24) * 0x1p-24; }
  double denormal() const { return desc.type == DType::f16 ? 0x1p-25 : 1e-37; }
};

struct Results {
  TestArray y, dx, dweight, dbias;
};

Results run(int device, const Problem& p, size_t offset = 0) {
  const LayerNormDesc& d = p.desc;
  const int64_t size = d.rows * d.columns;
  const size_t bytes = size * size_of(d.type);
  Results r{TestArray(d.type, size), TestArray(d.type, size), TestArray(DType::f32, d.columns), TestArray(DType::f32, d.columns)};
  const Bytes x(device, p.x, true, offset), dy(device, p.dy, true, offset), y(device, bytes, offset), dx(device, bytes, offset);
  const Bytes weight(device, p.weight, d.has_weight), bias(device, p.bias, d.has_bias);
  const Bytes dweight(device, d.has_weight ? d.columns * 4 : 0), dbias(device, d.has_bias ? d.columns * 4 : 0);
  const Bytes scratch(device, layer_norm_rocm_scratch_floats(d) * 4);
  for (bool prepare_only : {true, false}) {
    const RocmStream stream{.device = device, .architecture = rocm_device_architecture(device), .prepare_only = prepare_only};
    layer_norm_forward(d, {.x = x.data(), .weight = weight.floats(), .bias = bias.floats(), .y = y.data()}, stream);
    layer_norm_backward(d,
                        {.x = x.data(),
                         .weight = weight.floats(),
                         .dy = dy.data(),
                         .dx = dx.data(),
                         .dweight = dweight.floats(),
                         .dbias = dbias.floats(),
                         .scratch = scratch.floats()},
                        stream);
  }
  y.read(r.y), dx.read(r.dx), dweight.read(r.dweight), dbias.read(r.dbias);
  return r;
}

void expect_forward(const Problem& p, const TestArray& y) {
  const LayerNormDesc& d = p.desc;
  const Doubles want = reference::layer_norm(p.x.values(), p.weights(), p.biases(), d.rows, d.columns, d.epsilon);
  const Doubles h = reference::standardised(p.x.values(), d.rows, d.columns, d.epsilon);
  // One rounding of the result. Inside, the standardised x has a relative error by its scale and an absolute one, in units of the
  // deviation, by the mean.
  expect_within(
      y, want,
      [&](size_t i) {
        const double weight = d.has_weight ? std::fabs(p.weight[i % d.columns]) : 1,
                     bias = d.has_bias ? std::fabs(p.bias[i % d.columns]) : 0;
        return unit_roundoff(d.type) * std::fabs(want[i]) + p.inside() * ((std::fabs(h[i]) + 1) * weight + bias) + p.denormal();
      },
      "y");
}

void expect_backward(const Problem& p, const Results& got) {
  const LayerNormDesc& d = p.desc;
  const auto want = reference::layer_norm_gradients(p.x.values(), p.weights(), p.dy.values(), d.rows, d.columns, d.epsilon);
  Doubles scale;
  const Doubles h = reference::standardised(p.x.values(), d.rows, d.columns, d.epsilon, &scale);
  // dx is a difference: its float32 error is relative to its terms, not to the result; so are the sums over rows.
  Doubles terms(p.x.size()), dweight_terms(d.columns), dbias_terms(d.columns);
  for (int64_t r = 0; r < d.rows; r++) {
    double level = 0, along = 0;
    const auto g = [&](int64_t c) { return std::fabs(p.dy[r * d.columns + c] * (d.has_weight ? p.weight[c] : 1)); };
    for (int64_t c = 0; c < d.columns; c++) {
      level += g(c) / d.columns;
      along += g(c) * (std::fabs(h[r * d.columns + c]) + 1) / d.columns;
    }
    for (int64_t c = 0; c < d.columns; c++) {
      const int64_t i = r * d.columns + c;
      terms[i] = scale[r] * (g(c) + level + (std::fabs(h[i]) + 1) * along);
      dweight_terms[c] += std::fabs(p.dy[i]) * (std::fabs(h[i]) + 1);
      dbias_terms[c] += std::fabs(p.dy[i]);
    }
  }
  const double u = unit_roundoff(d.type);
  expect_within(
      got.dx, want.dx, [&](size_t i) { return u * std::fabs(want.dx[i]) + 2 * p.inside() * terms[i] + p.denormal(); }, "dx");
  if (d.has_weight)
    expect_within(
        got.dweight, want.dweight, [&](size_t c) { return (d.rows * 0x1p-24 + p.inside()) * dweight_terms[c] + 1e-37; },
        "dweight");
  if (d.has_bias)
    expect_within(got.dbias, want.dbias, [&](size_t c) { return (d.rows + 16) * 0x1p-24 * dbias_terms[c] + 1e-37; }, "dbias");
}

void expect_right(int device, const Problem& p, size_t offset = 0) {
  SCOPED_TRACE(std::string(name_of(p.desc.type)) + " " + std::to_string(p.desc.rows) + "x" + std::to_string(p.desc.columns) +
               (p.desc.has_weight ? " weight" : "") + (p.desc.has_bias ? " bias" : ""));
  const Results got = run(device, p, offset);
  expect_forward(p, got.y);
  expect_backward(p, got);
}

class RocmLayerNorm : public RocmRows {};
INSTANTIATE_TEST_SUITE_P(Every, RocmLayerNorm, ::testing::ValuesIn(kDevices), architecture_of);

TEST_P(RocmLayerNorm, EveryShape) {
  for (DType type : kDTypes)
    for (RowShape shape : kRowShapes) {
      expect_right(GetParam(), Problem(type, shape, true, true));
      // One parameter alone, and none: by turns, over a list in which every kind of row occurs twice.
      expect_right(GetParam(), Problem(type, shape, shape.columns % 3 == 0, shape.columns % 3 == 1));
    }
}

TEST_P(RocmLayerNorm, EveryPath) {
  // Rows of a wave in many blocks; the ends of one vector a thread, of four, of the registers; element by element.
  constexpr RowShape kShapes[] = {{1300, 64}, {9, 504},   {2, 4096},  {2, 4104},  {3, 8192},
                                  {2, 8200},  {2, 16384}, {1, 16392}, {1, 32768}, {1, 32776}};
  for (DType type : {DType::f32, DType::bf16})
    for (RowShape shape : kShapes) expect_right(GetParam(), Problem(type, shape, true, true));
}

TEST_P(RocmLayerNorm, ArraysAtAnyAddress) {
  for (DType type : kDTypes) expect_right(GetParam(), Problem(type, {5, 128}, true, true), size_of(type));
}

TEST_P(RocmLayerNorm, LargeMeanCostsNoAccuracy) {
  // Same bounds with a mean of 10^4 deviations: mean(x^2) - mean(x)^2 would leave nothing of the variance.
  for (RowShape shape : {RowShape{3, 64}, RowShape{7, 1021}, RowShape{2, 4096}, RowShape{1, 12288}}) {
    Problem p(DType::f32, shape, true, true);
    for (int64_t i = 0; i < p.x.size(); i++) p.x.set(i, static_cast<float>(p.x[i] + 1e4));
    expect_right(GetParam(), p);
  }
}

TEST_P(RocmLayerNorm, WavesWithMeansOfTheirOwn) {
  // Each piece of 64 vectors is at another level, and one element far from all: what the waves find differs most.
  Problem p(DType::f32, {2, 4096}, true, true);
  for (int64_t i = 0; i < p.x.size(); i++) p.x.set(i, static_cast<float>(p.x[i] * 1e-3 + double(i / 256 * 7919 % 23)));
  p.x.set(0, 1e5f);
  expect_right(GetParam(), p);
}

TEST_P(RocmLayerNorm, EqualNumbersHaveNoVariance) {
  for (float value : {0.0f, 0.1f, -3e-20f, 1e30f})
    for (int64_t columns : {int64_t{64}, int64_t{1021}, int64_t{4096}}) {
      Problem p(DType::f32, {3, columns}, true, true);
      for (int64_t i = 0; i < p.x.size(); i++) p.x.set(i, value);
      const Results got = run(GetParam(), p);
      for (int64_t i = 0; i < p.x.size(); i++) ASSERT_EQ(got.y[i], p.bias[i % columns]) << value;
    }
}

TEST_P(RocmLayerNorm, BitsDoNotDependOnTheOrderOfWaves) {
  const Problem p(DType::bf16, {40, 1024}, true, true);
  const Results first = run(GetParam(), p);
  for (uint64_t seed : {1, 2, 3}) {
    configure(emulator::kWaits | emulator::kRaces | emulator::kPoison, seed);
    const Results again = run(GetParam(), p);
    EXPECT_EQ(first.y.bytes(), again.y.bytes());
    EXPECT_EQ(first.dx.bytes(), again.dx.bytes());
    EXPECT_EQ(first.dweight.bytes(), again.dweight.bytes());
    EXPECT_EQ(first.dbias.bytes(), again.dbias.bytes());
  }
}

TEST_P(RocmLayerNorm, MovesNoByteTwice) {
  constexpr int64_t kRows = 3, kColumns = 4096, kRow = kColumns * 2;
  alignas(16) static char x[kRows * kRow], dy[kRows * kRow], y[kRows * kRow];
  alignas(16) static float weight[kColumns], bias[kColumns], partials[2 * kRows * kColumns];
  const Arrays arrays{{x, sizeof x},           {dy, sizeof dy},     {y, sizeof y},
                      {weight, sizeof weight}, {bias, sizeof bias}, {partials, sizeof partials}};
  const NormRocmConfig forward = norm_rocm::forward(DType::bf16, kRows, kColumns, {});
  const cdna::LayerNormForward f{.x = x,
                                 .weight = weight,
                                 .bias = bias,
                                 .y = y,
                                 .rows = kRows,
                                 .columns = kColumns,
                                 .inverse_columns = 1.0f / kColumns,
                                 .epsilon = 1e-5f};
  EXPECT_EQ(bytes_of_block(GetParam(), rocm::images::layer_norm_forward, "layer_norm_forward4_bf16",
                           Traced{forward.geometry(), 64}, f, arrays),
            2 * kRow + 2 * sizeof weight);
  const NormRocmConfig backward = norm_rocm::backward(DType::bf16, kRows, kColumns, true);
  const cdna::LayerNormBackward b{.x = x,
                                  .weight = weight,
                                  .dy = dy,
                                  .dx = y,
                                  .dweight_partials = partials,
                                  .dbias_partials = partials + backward.partials() * kColumns,
                                  .rows = kRows,
                                  .columns = kColumns,
                                  .groups = static_cast<unsigned>(backward.groups()),
                                  .inverse_columns = 1.0f / kColumns,
                                  .epsilon = 1e-5f};
  EXPECT_EQ(bytes_of_block(GetParam(), rocm::images::layer_norm_backward, "layer_norm_backward1_bf16",
                           Traced{backward.geometry(), 32}, b, arrays),
            3 * kRow + 3 * sizeof weight);
}

TEST_F(Rocm, BadLayerNormsAreRefused) {
  const RocmStream stream{.prepare_only = true};
  EXPECT_EQ(error_of([&] { layer_norm_forward({.rows = -1}, {}, stream); }), "rows=-1: must not be negative");
  EXPECT_EQ(error_of([&] { layer_norm_backward({.rows = 1, .columns = int64_t{1} << 30}, {}, stream); }),
            "columns=1073741824: must be at most 1073741823");
}

}  // namespace
}  // namespace jaxator::testing
