#include "jaxator/layer_norm.h"

#include "src/ops/layer_norm/reference.h"
#include "tests/cpp/shapes.h"
#include "tests/cpp/streamed.h"
#include "tests/cpp/testing.h"

namespace jaxator::testing {
namespace {

struct Problem {
  LayerNormDesc desc;
  TestArray x, weight, bias, dy;

  Problem(DType type, RowShape shape, bool has_weight, bool has_bias)
      : Problem(LayerNormDesc{.type = type,
                              .rows = shape.rows,
                              .columns = shape.columns,
                              .epsilon = 1e-5f,
                              .has_weight = has_weight,
                              .has_bias = has_bias},
                std::mt19937_64(shape.rows * 8191 + shape.columns)) {}

  Problem(LayerNormDesc d, std::mt19937_64 random)
      : desc(d),
        x(TestArray::normal(d.type, d.rows * d.columns, random)),
        weight(TestArray::normal(DType::f32, d.columns, random)),
        bias(TestArray::normal(DType::f32, d.columns, random)),
        dy(TestArray::normal(d.type, d.rows * d.columns, random)) {}

  const float* weight_data() const { return desc.has_weight ? static_cast<const float*>(weight.data()) : nullptr; }
  const float* bias_data() const { return desc.has_bias ? static_cast<const float*>(bias.data()) : nullptr; }
  Doubles weight_values() const { return desc.has_weight ? weight.values() : Doubles{}; }
  Doubles bias_values() const { return desc.has_bias ? bias.values() : Doubles{}; }

  /// Float32 inside: sums of K terms over at least 16 lanes and 2 chains, then a few operations on each element.
  double inside() const { return (desc.columns / 32.0 + 16) * 0x1p-24; }
  /// Half of the smallest float16; nothing for the types with more exponents.
  double denormal() const { return desc.type == DType::f16 ? 0x1p-25 : 1e-37; }
};

TestArray run_forward(const Problem& p, Executor& executor) {
  TestArray y(p.desc.type, p.x.size());
  layer_norm_forward(p.desc, {.x = p.x.data(), .weight = p.weight_data(), .bias = p.bias_data(), .y = y.data()}, executor);
  return y;
}

struct Backward {
  TestArray dx, dweight, dbias;
};

Backward run_backward(const Problem& p, Executor& executor) {
  Backward out{TestArray(p.desc.type, p.x.size()), TestArray(DType::f32, p.desc.has_weight ? p.desc.columns : 0),
               TestArray(DType::f32, p.desc.has_bias ? p.desc.columns : 0)};
  std::vector<float> scratch(layer_norm_scratch_floats(p.desc));
  layer_norm_backward(p.desc,
                      {.x = p.x.data(),
                       .weight = p.weight_data(),
                       .dy = p.dy.data(),
                       .dx = out.dx.data(),
                       .dweight = p.desc.has_weight ? static_cast<float*>(out.dweight.data()) : nullptr,
                       .dbias = p.desc.has_bias ? static_cast<float*>(out.dbias.data()) : nullptr,
                       .scratch = scratch.data()},
                      executor);
  return out;
}

template <class Body> void for_each_problem(Body&& body) {
  for (DType type : kDTypes)
    for (RowShape shape : kRowShapes)
      for (bool has_weight : {false, true})
        for (bool has_bias : {false, true}) {
          SCOPED_TRACE(std::string(name_of(type)) + " " + std::to_string(shape.rows) + "x" + std::to_string(shape.columns) +
                       (has_weight ? " weight" : "") + (has_bias ? " bias" : ""));
          body(Problem(type, shape, has_weight, has_bias));
        }
}

void expect_forward(const Problem& p, Executor& executor) {
  const TestArray y = run_forward(p, executor);
  EXPECT_TRUE(y.canaries_intact());
  const int64_t rows = p.desc.rows, columns = p.desc.columns;
  const Doubles want = reference::layer_norm(p.x.values(), p.weight_values(), p.bias_values(), rows, columns, p.desc.epsilon);
  const Doubles h = reference::standardised(p.x.values(), rows, columns, p.desc.epsilon);
  // One rounding of the result. Inside, the standardised x has a relative error by its scale and an absolute one, in units of
  // the deviation, by the mean.
  expect_within(
      y, want,
      [&](size_t i) {
        const double weight = p.desc.has_weight ? std::fabs(p.weight[i % columns]) : 1,
                     bias = p.desc.has_bias ? std::fabs(p.bias[i % columns]) : 0;
        return unit_roundoff(p.desc.type) * std::fabs(want[i]) + p.inside() * ((std::fabs(h[i]) + 1) * weight + bias) +
               p.denormal();
      },
      "y");
}

TEST(LayerNorm, ForwardMatchesReference) {
  for_each_isa([] {
    SerialExecutor executor;
    for_each_problem([&](const Problem& p) { expect_forward(p, executor); });
  });
}

TEST(LayerNorm, LargeMeanCostsNoAccuracy) {
  // Same bounds with a mean of 10^4 deviations: mean(x^2) - mean(x)^2 would leave nothing of the variance.
  for_each_isa([] {
    SerialExecutor executor;
    for (RowShape shape : {RowShape{3, 64}, RowShape{7, 1021}, RowShape{2, 4096}}) {
      Problem p(DType::f32, shape, true, true);
      for (int64_t i = 0; i < p.x.size(); i++) p.x.set(i, static_cast<float>(p.x[i] + 1e4));
      expect_forward(p, executor);
    }
  });
}

TEST(LayerNorm, BackwardMatchesReference) {
  for_each_isa([] {
    SerialExecutor executor;
    for_each_problem([&](const Problem& p) {
      const Backward got = run_backward(p, executor);
      EXPECT_TRUE(got.dx.canaries_intact() && got.dweight.canaries_intact() && got.dbias.canaries_intact());
      const int64_t rows = p.desc.rows, columns = p.desc.columns;
      const auto want =
          reference::layer_norm_gradients(p.x.values(), p.weight_values(), p.dy.values(), rows, columns, p.desc.epsilon);
      Doubles scale;
      const Doubles h = reference::standardised(p.x.values(), rows, columns, p.desc.epsilon, &scale);
      // dx is a difference: its float32 error is relative to its terms, not to the result; so are the sums over rows.
      Doubles terms(p.x.size()), dweight_terms(columns), dbias_terms(columns);
      for (int64_t r = 0; r < rows; r++) {
        double level = 0, along = 0;
        const auto g = [&](int64_t c) { return std::fabs(p.dy[r * columns + c] * (p.desc.has_weight ? p.weight[c] : 1)); };
        for (int64_t c = 0; c < columns; c++) {
          level += g(c) / columns;
          along += g(c) * (std::fabs(h[r * columns + c]) + 1) / columns;
        }
        for (int64_t c = 0; c < columns; c++) {
          const int64_t i = r * columns + c;
          terms[i] = scale[r] * (g(c) + level + (std::fabs(h[i]) + 1) * along);
          dweight_terms[c] += std::fabs(p.dy[i]) * (std::fabs(h[i]) + 1);
          dbias_terms[c] += std::fabs(p.dy[i]);
        }
      }
      const double u = unit_roundoff(p.desc.type);
      expect_within(
          got.dx, want.dx, [&](size_t i) { return u * std::fabs(want.dx[i]) + 2 * p.inside() * terms[i] + p.denormal(); }, "dx");
      if (p.desc.has_weight)
        expect_within(
            got.dweight, want.dweight, [&](size_t c) { return (rows * 0x1p-24 + p.inside()) * dweight_terms[c] + 1e-37; },
            "dweight");
      if (p.desc.has_bias)
        expect_within(got.dbias, want.dbias, [&](size_t c) { return rows * 0x1p-24 * dbias_terms[c] + 1e-37; }, "dbias");
    });
  });
}

TEST(LayerNorm, BitsDoNotDependOnThreads) {
  for (DType type : kDTypes) {
    const Problem p(type, {130, 768}, true, true);
    SerialExecutor serial;
    const TestArray one = run_forward(p, serial);
    const Backward one_back = run_backward(p, serial);
    for (int threads : {2, 3, 7}) {
      ThreadPool pool(threads);
      for (int repeat = 0; repeat < 5; repeat++) {
        const Backward many = run_backward(p, pool);
        EXPECT_EQ(one.bytes(), run_forward(p, pool).bytes());
        EXPECT_EQ(one_back.dx.bytes(), many.dx.bytes());
        EXPECT_EQ(one_back.dweight.bytes(), many.dweight.bytes());
        EXPECT_EQ(one_back.dbias.bytes(), many.dbias.bytes());
      }
    }
  }
}

TEST(LayerNorm, StreamedStoresGiveTheSameBits) {
  SerialExecutor executor;
  LayerNormDesc desc{.type = DType::bf16, .columns = 1000};
  const auto forward = [&](int64_t rows, const std::vector<const void*>& in, const std::vector<void*>& out) {
    desc.rows = rows;
    layer_norm_forward(desc, {.x = in[0], .weight = nullptr, .bias = nullptr, .y = out[0]}, executor);
  };
  const auto backward = [&](int64_t rows, const std::vector<const void*>& in, const std::vector<void*>& out) {
    desc.rows = rows;
    layer_norm_backward(
        desc,
        {.x = in[0], .weight = nullptr, .dy = in[1], .dx = out[0], .dweight = nullptr, .dbias = nullptr, .scratch = nullptr},
        executor);
  };
  for_each_isa([&] {
    for (int64_t offset : {0, 6}) {
      expect_same_bits_when_streamed({{2000}, {2000}}, offset, forward);
      expect_same_bits_when_streamed({{2000, 2000}, {2000}}, offset, backward);
    }
  });
}

TEST(LayerNorm, BadRequestsAreNamed) {
  SerialExecutor executor;
  const auto message = [&](LayerNormDesc desc) -> std::string {
    try {
      layer_norm_forward(desc, {}, executor);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message({.rows = -1, .columns = 4}), "rows=-1: must not be negative");
  EXPECT_EQ(message({.rows = 1, .columns = -4}), "columns=-4: must not be negative");
  EXPECT_NE(message({.rows = 1, .columns = 4, .epsilon = -1.0f}).find("epsilon=-1"), std::string::npos);
}

}  // namespace
}  // namespace jaxator::testing
