/// @file
/// Matmul problems with random operands, their reference, and the bounds on what a kernel may return.
#pragma once

#include "jaxator/matmul.h"
#include "src/ops/matmul/problem.h"
#include "src/ops/matmul/reference.h"
#include "tests/cpp/testing.h"

namespace jaxator::testing {

struct ProductShape {
  int64_t m, n, k;
};

/// 0, 1, odd, prime, non-multiple sizes, and several blocks of each dimension.
inline constexpr ProductShape kProductShapes[] = {
    {0, 5, 7},   {5, 0, 7},    {5, 7, 0},     {1, 1, 1},       {1, 33, 5},    {3, 1, 64},
    {8, 32, 16}, {13, 31, 37}, {64, 64, 256}, {130, 259, 131}, {17, 70, 300}, {129, 40, 521},
};

struct MatmulProblem {
  MatmulDesc desc;
  TestArray a, b, bias, residual;
  reference::Matmul want;

  explicit MatmulProblem(const MatmulDesc& d)
      : MatmulProblem(d, std::mt19937_64(d.m * 8191 + d.n * 127 + d.k + d.batch * 3 + d.sum)) {}

  int64_t elements() const { return desc.batch * desc.m * desc.n; }

  /// Terms of one sum, bias and residual included: each addition rounds once.
  double terms() const { return double(desc.k) * desc.sum + 3; }
  /// Error of the sums in float32, whatever their order.
  double sum_error(size_t i) const { return terms() * 0x1p-24 * want.magnitude[i] + 1e-35; }

  double preactivation_bound(size_t i) const {
    return sum_error(i) + unit_roundoff(desc.type) * std::fabs(want.preactivation[i]) + denormal(desc.type);
  }
  double out_bound(size_t i) const {
    constexpr double kSteepest = 1.13;  // of all activations
    const double inside = kSteepest * sum_error(i) + activation_error(want.preactivation[i]);
    const double residual_error = desc.has_residual ? 0x1p-24 * std::fabs(want.out[i]) : 0;
    return inside + residual_error + unit_roundoff(desc.out_type) * (std::fabs(want.out[i]) + inside) + denormal(desc.out_type);
  }

 private:
  MatmulProblem(const MatmulDesc& d, std::mt19937_64 random)
      : desc(d),
        a(TestArray::normal(d.type, matrices_a(d) * d.m * d.k, random)),
        b(TestArray::normal(d.type, matrices_b(d) * d.k * d.n, random)),
        bias(TestArray::normal(DType::f32, d.has_bias ? (d.batch_bias ? d.batch : 1) * d.n : 0, random)),
        residual(TestArray::normal(d.type, d.has_residual ? d.batch * d.m * d.n : 0, random)),
        want(reference::matmul(d, a.values(), b.values(), bias.values(), residual.values())) {}

  static double denormal(DType type) { return type == DType::f16 ? 0x1p-25 : 1e-35; }

  /// Of the function itself, by the errors that cpu_epilogue.h and math.h state: the exponential's, and for gelu_tanh three
  /// roundings of its argument.
  double activation_error(double z) const {
    const double exponential = desc.type == DType::f32 ? 3e-7 : 4e-6;
    const double argument = 1.5957691216 * (z + 0.044715 * z * z * z);
    switch (desc.activation) {
      case Activation::silu:
        return exponential * std::fabs(z);
      case Activation::gelu:
        return (3e-7 + exponential / 2) * std::fabs(z);
      case Activation::gelu_tanh:
        return (exponential + 4 * 0x1p-24 * std::fabs(argument)) * std::fabs(reference::activation(desc.activation, z));
      default:
        return 0;
    }
  }
};

struct MatmulResult {
  TestArray out, preactivation;
};

inline MatmulResult run(const MatmulProblem& p, Executor& executor, int64_t slots = 4) {
  MatmulResult result{TestArray(p.desc.out_type, p.elements()),
                      TestArray(p.desc.type, p.desc.has_preactivation ? p.elements() : 0)};
  std::vector<char> scratch(matmul_scratch_bytes(p.desc, slots) + 64);
  matmul(p.desc,
         {.a = p.a.data(),
          .b = p.b.data(),
          .bias = static_cast<const float*>(p.bias.data()),
          .residual = p.residual.data(),
          .out = result.out.data(),
          .preactivation = result.preactivation.data(),
          .scratch = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64)},
         slots, executor);
  return result;
}

inline void expect_right(const MatmulProblem& p, const MatmulResult& result) {
  EXPECT_TRUE(result.out.canaries_intact() && result.preactivation.canaries_intact());
  expect_within(result.out, p.want.out, [&](size_t i) { return p.out_bound(i); }, "out");
  if (p.desc.has_preactivation)
    expect_within(
        result.preactivation, p.want.preactivation, [&](size_t i) { return p.preactivation_bound(i); }, "preactivation");
}

}  // namespace jaxator::testing
