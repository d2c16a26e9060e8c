/// @file
/// The frequencies of a rotary embedding, in double words, as the kernels of every GPU take them.
#pragma once

#include <cmath>
#include <iterator>

#include "jaxator/rope.h"

namespace jaxator {

template <class Power> Power double_word(long double value) {
  const double high = static_cast<double>(value);
  return {high, static_cast<double>(value - high)};
}

/// Fills `first` and `powers` of a kernel's parameters, whose `pairs` is set.
template <class Parameters> void fill_rope_powers(const RopeDesc& desc, Parameters& parameters) {
  using Power = decltype(parameters.first);
  constexpr long double kQuarterTurns = 0.636619772367581343075535053490057448L;
  parameters.first = double_word<Power>(kQuarterTurns);
  // In 64-bit mantissas. Three squarings in a row leave an error of 2^-61, 2^-30 of a turn at position 2^31.
  long double ratio = 1;
  for (size_t k = 0; k < std::size(parameters.powers) && (parameters.pairs - 1) >> k != 0; k++) {
    ratio = k % 4 == 0 ? powl(desc.theta, -std::ldexp(2.0L, static_cast<int>(k)) / desc.columns) : ratio * ratio;
    parameters.powers[k] = double_word<Power>(ratio);
  }
}

}  // namespace jaxator
