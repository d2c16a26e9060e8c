/// @file
/// The specification of layer_norm: plain loops in float64.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace jaxator::reference {

using Array = std::vector<double>;

struct LayerNormGradients {
  Array dx;
  Array dweight;
  Array dbias;
};

/// (x - mean) / sqrt(variance + epsilon) of each row; `scale`, if given, receives 1 / sqrt(variance + epsilon).
inline Array standardised(const Array& x, int64_t rows, int64_t columns, double epsilon, Array* scale = nullptr) {
  Array out(x.size());
  for (int64_t r = 0; r < rows; r++) {
    double mean = 0, variance = 0;
    for (int64_t c = 0; c < columns; c++) mean += x[r * columns + c] / columns;
    for (int64_t c = 0; c < columns; c++) variance += (x[r * columns + c] - mean) * (x[r * columns + c] - mean) / columns;
    const double s = 1 / std::sqrt(variance + epsilon);
    for (int64_t c = 0; c < columns; c++) out[r * columns + c] = (x[r * columns + c] - mean) * s;
    if (scale != nullptr) scale->push_back(s);
  }
  return out;
}

/// An empty weight counts as ones, an empty bias as zeros.
inline Array layer_norm(const Array& x, const Array& weight, const Array& bias, int64_t rows, int64_t columns, double epsilon) {
  Array y = standardised(x, rows, columns, epsilon);
  for (int64_t i = 0; i < rows * columns; i++)
    y[i] = y[i] * (weight.empty() ? 1 : weight[i % columns]) + (bias.empty() ? 0 : bias[i % columns]);
  return y;
}

/// Gradients of sum(y * dy).
inline LayerNormGradients layer_norm_gradients(const Array& x, const Array& weight, const Array& dy, int64_t rows,
                                               int64_t columns, double epsilon) {
  LayerNormGradients out{Array(x.size()), Array(columns), Array(columns)};
  Array scale;
  const Array h = standardised(x, rows, columns, epsilon, &scale);
  for (int64_t r = 0; r < rows; r++) {
    double mean = 0, along = 0;
    const auto g = [&](int64_t c) { return dy[r * columns + c] * (weight.empty() ? 1 : weight[c]); };
    for (int64_t c = 0; c < columns; c++) {
      mean += g(c) / columns;
      along += g(c) * h[r * columns + c] / columns;
    }
    for (int64_t c = 0; c < columns; c++) {
      const int64_t i = r * columns + c;
      out.dx[i] = scale[r] * (g(c) - mean - h[i] * along);
      out.dweight[c] += dy[i] * h[i];
      out.dbias[c] += dy[i];
    }
  }
  return out;
}

}  // namespace jaxator::reference
