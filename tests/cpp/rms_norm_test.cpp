#include "jaxator/rms_norm.h"

#include "src/ops/rms_norm/reference.h"
#include "tests/cpp/shapes.h"
#include "tests/cpp/streamed.h"
#include "tests/cpp/testing.h"

namespace jaxator::testing {
namespace {

struct Problem {
  RmsNormDesc desc;
  TestArray x, residual, weight, dy, dsum;

  Problem(DType type, RowShape shape, bool has_residual, bool has_weight)
      : Problem(RmsNormDesc{.type = type,
                            .rows = shape.rows,
                            .columns = shape.columns,
                            .epsilon = 1e-5f,
                            .has_residual = has_residual,
                            .has_weight = has_weight},
                std::mt19937_64(shape.rows * 8191 + shape.columns)) {}

  Problem(RmsNormDesc d, std::mt19937_64 random)
      : desc(d),
        x(TestArray::normal(d.type, d.rows * d.columns, random)),
        residual(TestArray::normal(d.type, d.rows * d.columns, random)),
        weight(TestArray::normal(DType::f32, d.columns, random)),
        dy(TestArray::normal(d.type, d.rows * d.columns, random)),
        dsum(TestArray::normal(d.type, d.rows * d.columns, random)) {}

  const float* weight_data() const { return desc.has_weight ? static_cast<const float*>(weight.data()) : nullptr; }
  Doubles weight_values() const { return desc.has_weight ? weight.values() : Doubles{}; }
};

struct Forward {
  TestArray y, sum;
};

Forward run_forward(const Problem& p, Executor& executor) {
  Forward out{TestArray(p.desc.type, p.x.size()), TestArray(p.desc.type, p.x.size())};
  rms_norm_forward(p.desc,
                   {.x = p.x.data(),
                    .residual = p.desc.has_residual ? p.residual.data() : nullptr,
                    .weight = p.weight_data(),
                    .y = out.y.data(),
                    .sum = p.desc.has_residual ? out.sum.data() : nullptr},
                   executor);
  return out;
}

struct Backward {
  TestArray dx, dweight;
};

Backward run_backward(const Problem& p, const TestArray& sum, Executor& executor) {
  Backward out{TestArray(p.desc.type, p.x.size()), TestArray(DType::f32, p.desc.has_weight ? p.desc.columns : 0)};
  std::vector<float> scratch(rms_norm_scratch_floats(p.desc));
  rms_norm_backward(p.desc,
                    {.sum = sum.data(),
                     .weight = p.weight_data(),
                     .dy = p.dy.data(),
                     .dsum = p.desc.has_residual ? p.dsum.data() : nullptr,
                     .dx = out.dx.data(),
                     .dweight = p.desc.has_weight ? static_cast<float*>(out.dweight.data()) : nullptr,
                     .scratch = scratch.data()},
                    executor);
  return out;
}

template <class Body> void for_each_problem(Body&& body) {
  for (DType type : kDTypes)
    for (RowShape shape : kRowShapes)
      for (bool has_residual : {false, true})
        for (bool has_weight : {false, true}) {
          SCOPED_TRACE(std::string(name_of(type)) + " " + std::to_string(shape.rows) + "x" + std::to_string(shape.columns) +
                       (has_residual ? " residual" : "") + (has_weight ? " weight" : ""));
          body(Problem(type, shape, has_residual, has_weight));
        }
}

TEST(RmsNorm, ForwardMatchesReference) {
  for_each_isa([] {
    SerialExecutor executor;
    for_each_problem([&](const Problem& p) {
      const Forward got = run_forward(p, executor);
      EXPECT_TRUE(got.y.canaries_intact() && got.sum.canaries_intact());
      const double u = unit_roundoff(p.desc.type);
      TestArray sum = p.x;
      if (p.desc.has_residual) {
        // The sum is one rounding of an exact float32 or wider sum.
        Doubles want(p.x.size());
        for (int64_t i = 0; i < p.x.size(); i++) want[i] = p.x[i] + p.residual[i];
        expect_within(got.sum, want, [&](size_t i) { return u * std::fabs(want[i]) * 1.001 + 1e-30; }, "sum");
        sum = got.sum;
      }
      const Doubles want = reference::rms_norm(sum.values(), p.weight_values(), p.desc.rows, p.desc.columns, p.desc.epsilon);
      // One rounding of the result, and float32 inside: the sum of squares (K terms over at least 16 lanes and 4 chains),
      // the scale and two products.
      const double inside = (p.desc.columns / 32.0 + 8) * 0x1p-24;
      expect_within(got.y, want, [&](size_t i) { return (u + inside) * std::fabs(want[i]) + 1e-7; }, "y");
    });
  });
}

TEST(RmsNorm, BackwardMatchesReference) {
  for_each_isa([] {
    SerialExecutor executor;
    for_each_problem([&](const Problem& p) {
      const Backward got = run_backward(p, p.x, executor);
      EXPECT_TRUE(got.dx.canaries_intact() && got.dweight.canaries_intact());
      const int64_t rows = p.desc.rows, columns = p.desc.columns;
      const auto want =
          reference::rms_norm_gradients(p.x.values(), p.weight_values(), p.dy.values(),
                                        p.desc.has_residual ? p.dsum.values() : Doubles{}, rows, columns, p.desc.epsilon);
      const double u = unit_roundoff(p.desc.type), inside = (columns / 32.0 + 12) * 0x1p-24;
      // dx is a difference: its float32 error is relative to the largest term, not to the result.
      Doubles terms(p.x.size());
      for (int64_t r = 0; r < rows; r++) {
        double squares = 0, along = 0;
        for (int64_t c = 0; c < columns; c++) {
          const int64_t i = r * columns + c;
          const double g = p.dy[i] * (p.desc.has_weight ? p.weight[c] : 1);
          squares += p.x[i] * p.x[i];
          along += std::fabs(g * p.x[i]);
        }
        const double scale = 1 / std::sqrt(squares / columns + p.desc.epsilon);
        for (int64_t c = 0; c < columns; c++) {
          const int64_t i = r * columns + c;
          const double g = std::fabs(p.dy[i] * (p.desc.has_weight ? p.weight[c] : 1));
          terms[i] = scale * g + std::fabs(p.x[i]) * scale * scale * scale * along / columns + std::fabs(p.dsum[i]);
        }
      }
      expect_within(got.dx, want.dx, [&](size_t i) { return u * std::fabs(want.dx[i]) + inside * terms[i] + 1e-7; }, "dx");
      if (p.desc.has_weight) {
        Doubles magnitude(columns);
        for (int64_t r = 0; r < rows; r++)
          for (int64_t c = 0; c < columns; c++) magnitude[c] += std::fabs(p.dy[r * columns + c] * p.x[r * columns + c]) * 40;
        expect_within(
            got.dweight, want.dweight, [&](size_t c) { return (rows + 16) * 0x1p-24 * magnitude[c] + 1e-30; }, "dweight");
      }
    });
  });
}

TEST(RmsNorm, BitsDoNotDependOnThreads) {
  for (DType type : kDTypes) {
    const Problem p(type, {130, 768}, true, true);
    SerialExecutor serial;
    const Forward one = run_forward(p, serial);
    const Backward one_back = run_backward(p, one.sum, serial);
    for (int threads : {2, 3, 7}) {
      ThreadPool pool(threads);
      for (int repeat = 0; repeat < 5; repeat++) {
        const Forward many = run_forward(p, pool);
        const Backward many_back = run_backward(p, many.sum, pool);
        EXPECT_EQ(one.y.bytes(), many.y.bytes());
        EXPECT_EQ(one.sum.bytes(), many.sum.bytes());
        EXPECT_EQ(one_back.dx.bytes(), many_back.dx.bytes());
        EXPECT_EQ(one_back.dweight.bytes(), many_back.dweight.bytes());
      }
    }
  }
}

TEST(RmsNorm, StreamedStoresGiveTheSameBits) {
  SerialExecutor executor;
  RmsNormDesc desc{.type = DType::bf16, .columns = 1000, .has_residual = true};
  const auto forward = [&](int64_t rows, const std::vector<const void*>& in, const std::vector<void*>& out) {
    desc.rows = rows;
    rms_norm_forward(desc, {.x = in[0], .residual = in[1], .weight = nullptr, .y = out[0], .sum = out[1]}, executor);
  };
  const auto backward = [&](int64_t rows, const std::vector<const void*>& in, const std::vector<void*>& out) {
    desc.rows = rows;
    rms_norm_backward(
        desc, {.sum = in[0], .weight = nullptr, .dy = in[1], .dsum = in[2], .dx = out[0], .dweight = nullptr, .scratch = nullptr},
        executor);
  };
  for_each_isa([&] {
    for (int64_t offset : {0, 6}) {
      expect_same_bits_when_streamed({{2000, 2000}, {2000, 2000}}, offset, forward);
      expect_same_bits_when_streamed({{2000, 2000, 2000}, {2000}}, offset, backward);
    }
  });
}

TEST(RmsNorm, BadRequestsAreNamed) {
  SerialExecutor executor;
  const auto message = [&](RmsNormDesc desc) -> std::string {
    try {
      rms_norm_forward(desc, {}, executor);
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
