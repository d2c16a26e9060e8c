/// @file
/// The index of a coordinate in a layout that is known at compile time: what kernels use. Unrolled, without checks, in the type
/// of the coordinates.
#pragma once

#include "src/layout/swizzle.h"

namespace jaxator::layout {

namespace detail {

/// Of a coordinate that counts through leaves [leaf, end).
template <Layout L, int leaf, int end, class Integer> constexpr Integer leaves_offset(Integer coordinate) {
  constexpr Mode mode = L.leaves[leaf];
  constexpr Integer shape = static_cast<Integer>(mode.shape.value), stride = static_cast<Integer>(mode.stride.value);
  if constexpr (leaf + 1 == end)
    return coordinate * stride;
  else
    return coordinate % shape * stride + leaves_offset<L, leaf + 1, end>(coordinate / shape);
}

/// Of one coordinate for each mode from this one on, which begins at this leaf.
template <Layout L, int mode, int leaf, class Integer, class... Rest>
constexpr Integer modes_offset(Integer coordinate, Rest... rest) {
  constexpr int end = leaf + L.mode(mode).count;
  if constexpr (sizeof...(rest) == 0)
    return leaves_offset<L, leaf, end>(coordinate);
  else
    return leaves_offset<L, leaf, end>(coordinate) + modes_offset<L, mode + 1, end, Integer>(rest...);
}

constexpr bool has_numbers(const Layout& layout) {
  for (int k = 0; k < layout.count; k++)
    if (layout.leaves[k].stride.basis != 0) return false;
  return layout.is_static();
}

template <class Integer> constexpr bool holds(int64_t number) {
  return static_cast<int64_t>(static_cast<Integer>(number)) == number;
}

}  // namespace detail

/// One coordinate counts through all modes of L; several are one for each mode.
template <Layout L, Number... Coordinate> constexpr auto offset(Coordinate... coordinate) {
  using Integer = decltype((+coordinate + ...));
  static_assert(detail::has_numbers(L), "every shape and stride must be a static number");
  static_assert(detail::holds<Integer>(cosize(L).value), "the coordinate's type does not hold every index");
  static_assert(sizeof...(coordinate) == 1 || sizeof...(coordinate) == L.rank(), "one coordinate for each mode");
  if constexpr (sizeof...(coordinate) == 1)
    return detail::leaves_offset<L, 0, L.count, Integer>(coordinate...);
  else
    return detail::modes_offset<L, 0, 0, Integer>(coordinate...);
}

template <SwizzledLayout L, Number... Coordinate> constexpr auto offset(Coordinate... coordinate) {
  using Integer = decltype((+coordinate + ...));
  static_assert(L.offset.is_leaf() && L.offset.leaves[0].is_static(), "the offset must be a static number");
  constexpr int64_t start = L.offset.leaves[0].value;
  static_assert(detail::holds<Integer>(start + cosize(L.outer).value + L.inner.period()),
                "the coordinate's type does not hold every index");
  return static_cast<Integer>(L.inner(static_cast<Integer>(start) + offset<L.outer>(coordinate...)));
}

}  // namespace jaxator::layout
