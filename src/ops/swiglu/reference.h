/// @file
/// The specification of swiglu: plain loops in float64.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace jaxator::reference {

using Array = std::vector<double>;

inline double sigmoid(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }

/// y = silu(min(gate, limit)) * clamp(up, -limit, limit); limit is infinity for none.
inline Array swiglu(const Array& gate, const Array& up, double limit) {
  Array y(gate.size());
  for (size_t i = 0; i < y.size(); i++) {
    const double g = std::min(gate[i], limit);
    y[i] = g * sigmoid(g) * std::clamp(up[i], -limit, limit);
  }
  return y;
}

struct SwigluGradients {
  Array dgate;
  Array dup;
};

/// Gradients of sum(y * dy); 0 where the operand was cut.
inline SwigluGradients swiglu_gradients(const Array& gate, const Array& up, const Array& dy, double limit) {
  SwigluGradients out{Array(gate.size()), Array(gate.size())};
  for (size_t i = 0; i < gate.size(); i++) {
    const double g = std::min(gate[i], limit), u = std::clamp(up[i], -limit, limit), s = sigmoid(g);
    out.dgate[i] = gate[i] > limit ? 0 : dy[i] * u * s * (1 + g * (1 - s));
    out.dup[i] = std::fabs(up[i]) > limit ? 0 : dy[i] * g * s;
  }
  return out;
}

}  // namespace jaxator::reference
