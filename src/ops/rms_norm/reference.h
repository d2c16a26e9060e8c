/// @file
/// The specification of rms_norm: plain loops in float64.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace jaxator::reference {

using Array = std::vector<double>;

struct RmsNormGradients {
  Array dx;
  Array dweight;
};

/// y[r, c] = s[r, c] / sqrt(mean_c(s[r]^2) + epsilon) * weight[c]; an empty weight counts as ones.
inline Array rms_norm(const Array& s, const Array& weight, int64_t rows, int64_t columns, double epsilon) {
  Array y(s.size());
  for (int64_t r = 0; r < rows; r++) {
    double squares = 0;
    for (int64_t c = 0; c < columns; c++) squares += s[r * columns + c] * s[r * columns + c];
    const double scale = 1 / std::sqrt(squares / columns + epsilon);
    for (int64_t c = 0; c < columns; c++) y[r * columns + c] = s[r * columns + c] * scale * (weight.empty() ? 1 : weight[c]);
  }
  return y;
}

/// Gradients of sum(y * dy) + sum(s * dsum); an empty dsum counts as zeros.
inline RmsNormGradients rms_norm_gradients(const Array& s, const Array& weight, const Array& dy, const Array& dsum, int64_t rows,
                                           int64_t columns, double epsilon) {
  RmsNormGradients out{Array(s.size()), Array(columns)};
  for (int64_t r = 0; r < rows; r++) {
    double squares = 0, along = 0;
    for (int64_t c = 0; c < columns; c++) {
      const int64_t i = r * columns + c;
      squares += s[i] * s[i];
      along += dy[i] * (weight.empty() ? 1 : weight[c]) * s[i];
    }
    const double scale = 1 / std::sqrt(squares / columns + epsilon);
    for (int64_t c = 0; c < columns; c++) {
      const int64_t i = r * columns + c;
      const double g = dy[i] * (weight.empty() ? 1 : weight[c]);
      out.dx[i] = scale * g - s[i] * scale * scale * scale * along / columns + (dsum.empty() ? 0 : dsum[i]);
      out.dweight[c] += dy[i] * s[i] * scale;
    }
  }
  return out;
}

}  // namespace jaxator::reference
