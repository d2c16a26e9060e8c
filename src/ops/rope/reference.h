/// @file
/// The specification of rope: plain loops in float64, angles in extended precision.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace jaxator::reference {

using Array = std::vector<double>;

/// cos and sin of positions[r] * theta^(-2 i / columns): [positions, columns / 2] each.
inline void rope_tables(const std::vector<int32_t>& positions, int64_t columns, double theta, Array* cosine, Array* sine) {
  for (int32_t position : positions)
    for (int64_t i = 0; i < columns / 2; i++) {
      const long double angle = position * powl(theta, -2.0L * i / columns);
      cosine->push_back(static_cast<double>(cosl(angle)));
      sine->push_back(static_cast<double>(sinl(angle)));
    }
}

/// x [rows, heads, columns]; row r takes row r % angle_rows of the tables.
inline Array rope(const Array& x, const Array& cosine, const Array& sine, int64_t rows, int64_t heads, int64_t columns,
                  int64_t angle_rows, bool interleaved, bool inverse) {
  Array y(x.size());
  const int64_t pairs = columns / 2;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t h = 0; h < heads; h++)
      for (int64_t i = 0; i < pairs; i++) {
        const int64_t start = (r * heads + h) * columns, angle = r % angle_rows * pairs + i;
        const int64_t first = start + (interleaved ? 2 * i : i), second = start + (interleaved ? 2 * i + 1 : i + pairs);
        const double c = cosine[angle], s = inverse ? -sine[angle] : sine[angle];
        y[first] = x[first] * c - x[second] * s;
        y[second] = x[second] * c + x[first] * s;
      }
  return y;
}

}  // namespace jaxator::reference
