/// @file
/// Families of layouts, and what the laws of the algebra are checked with.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "src/layout/recast.h"
#include "src/layout/text.h"

namespace jaxator::layout {

// For the messages of gtest.
inline void PrintTo(const Layout& layout, std::ostream* out) { *out << to_string(layout); }
inline void PrintTo(const IntTuple& tuple, std::ostream* out) { *out << to_string(tuple); }
inline void PrintTo(const Int& leaf, std::ostream* out) { *out << to_string(leaf); }
inline void PrintTo(const Tile& tile, std::ostream* out) { *out << to_string(tile); }
template <class Inner> void PrintTo(const Composed<Inner>& layout, std::ostream* out) { *out << to_string(layout); }

namespace testing {

inline Layout L(const char* text) { return parse<Layout>(text); }
inline IntTuple T(const char* text) { return parse<IntTuple>(text); }

/// Every shape of one to three leaves with at most `size` elements, in every nesting without tuples of one mode. Leaves of size
/// 1 beside others only up to 16 elements: what is done with them does not depend on the size of the others.
inline std::vector<IntTuple> shapes_up_to(int64_t size, int max_leaves = 3, bool nested = true) {
  std::vector<IntTuple> all;
  const auto add = [&](int64_t elements, int64_t smallest, const IntTuple& shape) {
    if (smallest > 1 || elements <= 16) all.push_back(shape);
  };
  for (int64_t a = 1; a <= size; a++) {
    all.push_back(a);
    for (int64_t b = 1; max_leaves >= 2 && a * b <= size; b++) {
      add(a * b, std::min(a, b), tuple(a, b));
      for (int64_t c = 1; max_leaves >= 3 && a * b * c <= size; c++) {
        const int64_t n = a * b * c, smallest = std::min({a, b, c});
        add(n, smallest, tuple(a, b, c));
        if (!nested) continue;
        add(n, smallest, tuple(tuple(a, b), c));
        add(n, smallest, tuple(a, tuple(b, c)));
      }
    }
  }
  return all;
}

/// Calls body with every layout of the shape whose strides are among these.
template <class Body> void for_strides(const IntTuple& shape, const std::vector<int64_t>& strides, Body&& body) {
  Layout layout(shape);
  const auto choose = [&](auto&& self, int leaf) -> void {
    if (leaf == layout.count) return body(layout);
    for (int64_t stride : strides) {
      layout.leaves[leaf].stride = stride;
      self(self, leaf + 1);
    }
  };
  choose(choose, 0);
}

/// Calls make; true where it was refused. Anything but std::invalid_argument is a failure of the test.
template <class Make> bool refused(Make&& make) {
  try {
    make();
    return false;
  } catch (const std::invalid_argument&) {
    return true;
  }
}

template <class Make> std::string refusal(Make&& make) {
  try {
    make();
    return "accepted";
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

/// The indices in order.
inline std::vector<int64_t> indices(const Layout& layout) {
  std::vector<int64_t> all(static_cast<size_t>(size(layout).value));
  for (size_t i = 0; i < all.size(); i++) all[i] = layout(static_cast<int64_t>(i));
  return all;
}

}  // namespace testing
}  // namespace jaxator::layout
