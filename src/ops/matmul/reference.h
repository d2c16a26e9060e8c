/// @file
/// The specification of matmul: plain loops in float64.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "jaxator/matmul.h"

namespace jaxator::reference {

using Array = std::vector<double>;

inline double activation(Activation kind, double x) {
  switch (kind) {
    case Activation::none:
      return x;
    case Activation::relu:
      return x < 0 ? 0 : x;
    case Activation::silu:
      return x / (1 + std::exp(-x));
    case Activation::gelu:
      return 0.5 * x * std::erfc(-x * std::sqrt(0.5));
    default:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
  }
}

struct Matmul {
  Array out;
  Array preactivation;
  Array magnitude;  // the same sums of absolute values, without activation: what rounding errors are relative to
};

/// bias and residual may be empty.
inline Matmul matmul(const MatmulDesc& d, const Array& a, const Array& b, const Array& bias, const Array& residual) {
  const auto matrix = [&](bool batched, bool summed, int64_t i, int64_t j) {
    return (batched ? i : 0) * (summed ? d.sum : 1) + (summed ? j : 0);
  };
  const int64_t elements = d.batch * d.m * d.n;
  Matmul result{Array(elements), Array(elements), Array(elements)};
  for (int64_t i = 0; i < d.batch; i++)
    for (int64_t r = 0; r < d.m; r++)
      for (int64_t c = 0; c < d.n; c++) {
        double z = bias.empty() ? 0 : bias[(d.batch_bias ? i * d.n : 0) + c], magnitude = std::fabs(z);
        for (int64_t j = 0; j < d.sum; j++)
          for (int64_t k = 0; k < d.k; k++) {
            const double x = a[matrix(d.batch_a, d.sum_a, i, j) * d.m * d.k + (d.transpose_a ? k * d.m + r : r * d.k + k)];
            const double y = b[matrix(d.batch_b, d.sum_b, i, j) * d.k * d.n + (d.transpose_b ? c * d.k + k : k * d.n + c)];
            z += x * y;
            magnitude += std::fabs(x * y);
          }
        const int64_t at = (i * d.m + r) * d.n + c;
        result.preactivation[at] = z;
        result.magnitude[at] = magnitude;
        result.out[at] = activation(d.activation, z) + (residual.empty() ? 0 : residual[at]);
      }
  return result;
}

}  // namespace jaxator::reference
