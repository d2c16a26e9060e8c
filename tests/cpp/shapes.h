/// @file
/// Shapes of the C++ tests: 0, 1, odd, prime and non-multiple sizes, and sizes of real models.
#pragma once

#include <cstdint>

namespace jaxator::testing {

struct RowShape {
  int64_t rows, columns;
};

inline constexpr RowShape kRowShapes[] = {
    {0, 64}, {3, 0},   {1, 1},    {1, 7},     {2, 16},   {5, 31},    {3, 64},
    {7, 67}, {2, 130}, {33, 256}, {17, 1021}, {1, 4097}, {130, 768}, {9, 4096},
};

}  // namespace jaxator::testing
