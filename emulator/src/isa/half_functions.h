/// @file
/// Half-precision arithmetic that double precision does not give by itself.
#pragma once

#include "emulator/src/isa/floats.h"

namespace jaxator::emulator {

/// a * b + c for values of half precision, as a double that one more rounding to half precision takes to the right result: the
/// product is exact, and where the sum is not, its last place is made odd, which no later rounding mistakes for a tie.
inline double multiply_add_once(double a, double b, double c) {
  const double product = a * b, sum = product + c;
  if (!std::isfinite(sum)) return sum;
  const double added = sum - product, error = (product - (sum - added)) + (c - added);
  if (error == 0 || (as_bits(sum) & 1) != 0) return sum;
  return std::nextafter(sum, error > 0 ? INFINITY : -INFINITY);
}

}  // namespace jaxator::emulator
