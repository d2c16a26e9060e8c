#include "jaxator/swiglu.h"

#include "src/ops/swiglu/reference.h"
#include "tests/cpp/shapes.h"
#include "tests/cpp/streamed.h"
#include "tests/cpp/testing.h"

namespace jaxator::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Problem {
  SwigluDesc desc;
  TestArray gate, up, dy;

  Problem(DType type, RowShape shape, bool packed, float limit)
      : Problem(SwigluDesc{.type = type, .rows = shape.rows, .columns = shape.columns, .limit = limit, .packed = packed},
                std::mt19937_64(shape.rows * 8191 + shape.columns)) {}

  Problem(SwigluDesc d, std::mt19937_64 random)
      : desc(d),
        gate(TestArray::normal(d.type, d.rows * d.columns, random, 2)),
        up(TestArray::normal(d.type, d.rows * d.columns, random)),
        dy(TestArray::normal(d.type, d.rows * d.columns, random)) {}

  TestArray packed() const {
    TestArray both(desc.type, 2 * gate.size());
    for (int64_t i = 0; i < gate.size(); i++) {
      const int64_t at = i / desc.columns * 2 * desc.columns + i % desc.columns;
      both.set(at, static_cast<float>(gate[i]));
      both.set(at + desc.columns, static_cast<float>(up[i]));
    }
    return both;
  }

  /// Half of packed gradients, or all of separate ones.
  Doubles half(const TestArray& packed_gradients, bool second) const {
    Doubles out(gate.size());
    for (int64_t i = 0; i < gate.size(); i++)
      out[i] = packed_gradients[i / desc.columns * 2 * desc.columns + i % desc.columns + (second ? desc.columns : 0)];
    return out;
  }

  double u() const { return unit_roundoff(desc.type); }
  /// Relative error before the last rounding: sigmoid's (math.h) and three products.
  double inside() const { return desc.type == DType::f32 ? 3e-7 + 3 * 0x1p-24 : 4e-6 + 3 * 0x1p-24; }
  double denormal() const { return desc.type == DType::f16 ? 0x1p-25 : 1e-35; }
};

TestArray run_forward(const Problem& p, Executor& executor) {
  TestArray y(p.desc.type, p.gate.size());
  if (p.desc.packed)
    swiglu_forward(p.desc, {.gate = p.packed().data(), .up = nullptr, .y = y.data()}, executor);
  else
    swiglu_forward(p.desc, {.gate = p.gate.data(), .up = p.up.data(), .y = y.data()}, executor);
  return y;
}

/// Packed: all of it in dgate.
struct Backward {
  TestArray dgate, dup;
};

Backward run_backward(const Problem& p, Executor& executor) {
  const int64_t n = p.gate.size();
  Backward out{TestArray(p.desc.type, p.desc.packed ? 2 * n : n), TestArray(p.desc.type, p.desc.packed ? 0 : n)};
  const TestArray packed = p.packed();
  swiglu_backward(p.desc,
                  {.gate = p.desc.packed ? packed.data() : p.gate.data(),
                   .up = p.desc.packed ? nullptr : p.up.data(),
                   .dy = p.dy.data(),
                   .dgate = out.dgate.data(),
                   .dup = p.desc.packed ? nullptr : out.dup.data()},
                  executor);
  return out;
}

template <class Body> void for_each_problem(Body&& body) {
  for (DType type : kDTypes)
    for (RowShape shape : kRowShapes)
      for (bool packed : {false, true})
        for (float limit : {kInfinity, 1.5f}) {
          SCOPED_TRACE(std::string(name_of(type)) + " " + std::to_string(shape.rows) + "x" + std::to_string(shape.columns) +
                       (packed ? " packed" : "") + " limit " + std::to_string(limit));
          body(Problem(type, shape, packed, limit));
        }
}

TEST(Swiglu, ForwardMatchesReference) {
  for_each_isa([] {
    SerialExecutor executor;
    for_each_problem([&](const Problem& p) {
      const TestArray y = run_forward(p, executor);
      EXPECT_TRUE(y.canaries_intact());
      const Doubles want = reference::swiglu(p.gate.values(), p.up.values(), p.desc.limit);
      expect_within(y, want, [&](size_t i) { return (p.u() + p.inside()) * std::fabs(want[i]) + p.denormal(); }, "y");
    });
  });
}

TEST(Swiglu, BackwardMatchesReference) {
  for_each_isa([] {
    SerialExecutor executor;
    for_each_problem([&](const Problem& p) {
      const Backward got = run_backward(p, executor);
      EXPECT_TRUE(got.dgate.canaries_intact() && got.dup.canaries_intact());
      const auto want = reference::swiglu_gradients(p.gate.values(), p.up.values(), p.dy.values(), p.desc.limit);
      const Doubles dgate = p.desc.packed ? p.half(got.dgate, false) : got.dgate.values();
      const Doubles dup = p.desc.packed ? p.half(got.dgate, true) : got.dup.values();
      // 1 + g * (1 - s) cancels near g = -1.28, so its error is relative to its terms.
      expect_within(
          dgate, want.dgate,
          [&](size_t i) {
            const double g = std::min<double>(p.gate[i], p.desc.limit), s = reference::sigmoid(g);
            const double terms = std::fabs(p.dy[i] * p.up[i]) * s * (1 + std::fabs(g) * (1 - s));
            return p.u() * std::fabs(want.dgate[i]) + 2 * p.inside() * terms + p.denormal();
          },
          "dgate");
      expect_within(dup, want.dup, [&](size_t i) { return (p.u() + p.inside()) * std::fabs(want.dup[i]) + p.denormal(); }, "dup");
    });
  });
}

TEST(Swiglu, SiluIsAccurateEverywhere) {
  // Every float32 whose last 12 bits are those of a prime stride, from 2^-140 to 2^127, both signs.
  TestArray gate(DType::f32, 2 * 267 * 2048, 0), up(DType::f32, gate.size(), 1), y(DType::f32, gate.size());
  for (int64_t i = 0; i < gate.size(); i++) {
    const double magnitude = std::ldexp(1 + (i % 2048 * 4099 % (1 << 23)) * 0x1p-23, static_cast<int>(i / 4096) - 140);
    gate.set(i, static_cast<float>(i / 2048 % 2 ? -magnitude : magnitude));
  }
  const Doubles want = reference::swiglu(gate.values(), up.values(), kInfinity);
  for_each_isa([&] {
    SerialExecutor executor;
    swiglu_forward({.rows = 1, .columns = gate.size()}, {.gate = gate.data(), .up = up.data(), .y = y.data()}, executor);
    expect_within(y, want, [&](size_t i) { return (3e-7 + 0x1p-24) * std::fabs(want[i]) + 100 * 0x1p-125; }, "silu");
  });
}

TEST(Swiglu, SpecialValues) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for_each_isa([&] {
    SerialExecutor executor;
    const float gate[] = {0, -1e30f, 1e30f, kInfinity, nan, -kInfinity, 7, 8, 1, 1, 1, nan};
    const float up[] = {1, 1, 1, 1, 1, 1, 1, 1, 7, 8, -8, 8}, dy[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, nan};
    float y[12], dgate[12], dup[12];
    swiglu_forward({.rows = 1, .columns = 12}, {.gate = gate, .up = up, .y = y}, executor);
    EXPECT_EQ(y[0], 0.0f);
    EXPECT_EQ(y[1], 0.0f);
    EXPECT_EQ(y[2], 1e30f);
    EXPECT_EQ(y[3], kInfinity);
    EXPECT_TRUE(std::isnan(y[4]) && std::isnan(y[5]));

    const SwigluDesc limited{.rows = 1, .columns = 12, .limit = 7};
    swiglu_forward(limited, {.gate = gate, .up = up, .y = y}, executor);
    EXPECT_EQ(y[2], y[6]);
    EXPECT_EQ(y[3], y[6]);
    EXPECT_TRUE(std::isnan(y[4]));
    EXPECT_EQ(y[8], y[9]);
    EXPECT_EQ(y[9], -y[10]);
    swiglu_backward(limited, {.gate = gate, .up = up, .dy = dy, .dgate = dgate, .dup = dup}, executor);
    EXPECT_NE(dgate[6], 0.0f);  // a gate at the limit is not cut
    EXPECT_EQ(dgate[7], 0.0f);
    EXPECT_EQ(dgate[2], 0.0f);
    EXPECT_EQ(dgate[1], 0.0f);
    EXPECT_NE(dup[8], 0.0f);
    EXPECT_EQ(dup[9], 0.0f);
    EXPECT_EQ(dup[10], 0.0f);
    EXPECT_EQ(dup[11], 0.0f);  // by selection, not by multiplication
    EXPECT_TRUE(std::isnan(dgate[4]) && std::isnan(dgate[11]));
  });
}

TEST(Swiglu, BitsDoNotDependOnThreads) {
  for (DType type : kDTypes)
    for (bool packed : {false, true}) {
      const Problem p(type, {130, 768}, packed, 1.5f);
      SerialExecutor serial;
      const TestArray one = run_forward(p, serial);
      const Backward one_back = run_backward(p, serial);
      for (int threads : {2, 3, 7}) {
        ThreadPool pool(threads);
        const Backward many = run_backward(p, pool);
        EXPECT_EQ(one.bytes(), run_forward(p, pool).bytes());
        EXPECT_EQ(one_back.dgate.bytes(), many.dgate.bytes());
        EXPECT_EQ(one_back.dup.bytes(), many.dup.bytes());
      }
    }
}

TEST(Swiglu, StreamedStoresGiveTheSameBits) {
  SerialExecutor executor;
  for_each_isa([&] {
    for (int64_t offset : {0, 6}) {
      for (bool packed : {false, true}) {
        SwigluDesc desc{.type = DType::bf16, .columns = 1000, .packed = packed};
        const int64_t gate_bytes = packed ? 4000 : 2000;
        expect_same_bits_when_streamed({{gate_bytes, 2000}, {2000}}, offset, [&](int64_t rows, const auto& in, const auto& out) {
          desc.rows = rows;
          swiglu_forward(desc, {.gate = in[0], .up = in[1], .y = out[0]}, executor);
        });
        expect_same_bits_when_streamed(
            {{gate_bytes, 2000, 2000}, {gate_bytes, 2000}}, offset, [&](int64_t rows, const auto& in, const auto& out) {
              desc.rows = rows;
              swiglu_backward(desc, {.gate = in[0], .up = in[1], .dy = in[2], .dgate = out[0], .dup = out[1]}, executor);
            });
      }
    }
  });
}

TEST(Swiglu, BadRequestsAreNamed) {
  SerialExecutor executor;
  const auto message = [&](SwigluDesc desc) -> std::string {
    try {
      swiglu_forward(desc, {}, executor);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message({.rows = -1, .columns = 4}), "rows=-1: must not be negative");
  EXPECT_EQ(message({.rows = 1, .columns = -4}), "columns=-4: must not be negative");
  EXPECT_EQ(message({.rows = 1, .columns = 4, .limit = 0}), "limit=0.000000: must be positive (infinity: none)");
  EXPECT_NE(message({.rows = 1, .columns = 4, .limit = std::nanf("")}).find("limit=nan"), std::string::npos);
}

}  // namespace
}  // namespace jaxator::testing
