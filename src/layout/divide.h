/// @file
/// Divides: a layout split into tiles and what counts the tiles. The forms differ in how the modes are arranged:
///   logical   ((tile0, rest0), (tile1, rest1), other..)
///   zipped    ((tile0, tile1), (rest0, rest1, other..))
///   tiled     ((tile0, tile1), rest0, rest1, other..)
///   flat      (tile0, tile1, rest0, rest1, other..)
/// for a tile of two modes; a tiler that is a layout makes (tile, rest) of the whole, which each form then arranges alike.
#pragma once

#include "src/layout/algebra.h"

namespace jaxator::layout {

namespace detail {

/// ((first of each mode), (second of each mode, modes past the tile)) where pair(mode, layout, math) is (first, second). Of a
/// mode that the tile keeps, nothing is in the first.
template <class B, class Pair>
constexpr Layout zip_modes(const Layout& layout, const Tile& tile, Math<B> math, const Pair& pair) {
  if (tile.is_keep()) return make_layout(Layout(Mode{1, 0}), layout);
  if (tile.is_layout()) return pair(layout, tile.modes, math);
  math.require(tile.rank() > 0, "the tile is empty");
  Layout first;
  const Layout second = map_modes(layout, tile.rank(), math, [&](int i, const Layout& mode, const Math<B>& part) {
    const Layout both = zip_modes(mode, tile.mode(i), part, pair);
    first.push(both.mode(0));
    return both.mode(1);
  });
  return make_layout(first, second);
}

/// (a, b) with b's modes, and with `flat` a's too, as modes of their own.
constexpr Layout spread(const Layout& both, bool flat) {
  const Layout first = both.mode(0), second = both.mode(1);
  Layout result;
  if (flat)
    result = first.take(0, first.rank());
  else
    result.push(first);
  for (int i = 0; i < second.rank(); i++) result.push(second.mode(i));
  return result;
}

}  // namespace detail

/// (tile, rest): the elements that the tiler picks, and the layout that moves it over all others.
template <class B = Evaluate>
constexpr Layout logical_divide(const Layout& layout, const Layout& tiler, Math<B> math = {"logical_divide"}) {
  math.require(tiler.count > 0, "the tile is empty");
  return composition(layout, make_layout(tiler, complement(tiler, size(layout, math), math)), math);
}

namespace detail {
inline constexpr auto kDivide = [](const Layout& mode, const Layout& tiler, const auto& math) {
  return logical_divide(mode, tiler, math);
};
}  // namespace detail

template <class B = Evaluate>
constexpr Layout logical_divide(const Layout& layout, const Tile& tile, Math<B> math = {"logical_divide"}) {
  return detail::by_tile(layout, tile, math, detail::kDivide);
}

template <class B = Evaluate>
constexpr Layout zipped_divide(const Layout& layout, const Tile& tile, Math<B> math = {"zipped_divide"}) {
  return detail::zip_modes(layout, tile, math, detail::kDivide);
}

template <class B = Evaluate>
constexpr Layout tiled_divide(const Layout& layout, const Tile& tile, Math<B> math = {"tiled_divide"}) {
  return detail::spread(zipped_divide(layout, tile, math), false);
}

template <class B = Evaluate>
constexpr Layout flat_divide(const Layout& layout, const Tile& tile, Math<B> math = {"flat_divide"}) {
  return detail::spread(zipped_divide(layout, tile, math), true);
}

}  // namespace jaxator::layout
