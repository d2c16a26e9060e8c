/// @file
/// Products: a layout repeated as another says. Arranged as the divides are, see divide.h. Also the compact layouts that follow
/// a given order.
#pragma once

#include "src/layout/divide.h"

namespace jaxator::layout {

/// (block, copies): the block, and the layout of its copies, in the gaps and behind it.
template <class B = Evaluate>
constexpr Layout logical_product(const Layout& block, const Layout& copies, Math<B> math = {"logical_product"}) {
  math.require(block.count > 0 && copies.count > 0, "the block or the layout of copies is empty");
  const Int room = math.mul(size(block, math), cosize(copies, math));
  return make_layout(block, composition(complement(block, room, math), copies, math));
}

namespace detail {
inline constexpr auto kProduct = [](const Layout& mode, const Layout& copies, const auto& math) {
  return logical_product(mode, copies, math);
};
}  // namespace detail

template <class B = Evaluate>
constexpr Layout logical_product(const Layout& block, const Tile& tile, Math<B> math = {"logical_product"}) {
  return detail::by_tile(block, tile, math, detail::kProduct);
}

template <class B = Evaluate>
constexpr Layout zipped_product(const Layout& block, const Tile& tile, Math<B> math = {"zipped_product"}) {
  return detail::zip_modes(block, tile, math, detail::kProduct);
}

template <class B = Evaluate>
constexpr Layout tiled_product(const Layout& block, const Tile& tile, Math<B> math = {"tiled_product"}) {
  return detail::spread(zipped_product(block, tile, math), false);
}

template <class B = Evaluate>
constexpr Layout flat_product(const Layout& block, const Tile& tile, Math<B> math = {"flat_product"}) {
  return detail::spread(zipped_product(block, tile, math), true);
}

namespace detail {

/// The product of layouts of equal rank, mode by mode as (block, copies), or the other way.
template <class B> constexpr Layout product_by_mode(const Layout& block, const Layout& copies, bool raked, Math<B> math) {
  const int rank = block.rank() > copies.rank() ? block.rank() : copies.rank();
  const Layout one = Mode{1, 0};
  const Layout both = logical_product(block.pad(rank, one).take(0, rank), copies.pad(rank, one).take(0, rank), math);
  Layout result;
  for (int i = 0; i < rank; i++) {
    const Layout element = both.mode(0).mode(i), copy = both.mode(1).mode(i);
    result.push(raked ? make_layout(copy, element) : make_layout(element, copy));
  }
  return result;
}

}  // namespace detail

/// Copies of the block side by side: mode i is (block i, copies i).
template <class B = Evaluate>
constexpr Layout blocked_product(const Layout& block, const Layout& copies, Math<B> math = {"blocked_product"}) {
  return detail::product_by_mode(block, copies, false, math);
}

/// Copies of the block interleaved: mode i is (copies i, block i).
template <class B = Evaluate>
constexpr Layout raked_product(const Layout& block, const Layout& copies, Math<B> math = {"raked_product"}) {
  return detail::product_by_mode(block, copies, true, math);
}

namespace detail {

/// A key for each leaf of the shape from an order that may stop above it.
constexpr IntTuple expand_order(const IntTuple& order, const IntTuple& shape, const Math<>& math) {
  if (order.is_leaf()) {
    math.require(order.leaves[0].is_static(), "order {0} must be a static number", order.leaves[0]);
    return shape.substitute([&](Int) { return order; });
  }
  math.require(order.rank() == shape.rank(), "an order of {0} modes does not fit {1} modes", order.rank(), shape.rank());
  IntTuple keys;
  for (int i = 0; i < shape.rank(); i++) keys.push(expand_order(order.mode(i), shape.mode(i), math));
  return keys;
}

/// Compact, smaller keys first. Modes of stride 0 stay so: they are one element.
template <class B> constexpr Layout compact_like(const Layout& layout, const IntTuple& keys, Math<B> math) {
  IntTuple elements = layout.shape();
  for (int k = 0; k < layout.count; k++)
    if (layout.leaves[k].stride.is(0)) elements.leaves[k] = 1;
  IntTuple stride = compact_strides(elements, keys, math);
  for (int k = 0; k < layout.count; k++)
    if (layout.leaves[k].stride.is(0)) stride.leaves[k] = 0;
  return {layout.shape(), stride};
}

template <class B> constexpr IntTuple distances(const Layout& layout, Math<B> math) {
  IntTuple keys = layout.stride();
  for (math.leaf = 0; math.leaf < keys.count; math.leaf++) {
    Int& key = keys.leaves[math.leaf];
    math.require(key.basis == 0, "stride {0} must be a plain number", key);
    if (known_minimum(key) < 0) key = math.sub(0, key);
  }
  return keys;
}

}  // namespace detail

/// Compact, with stride 1 where the order is smallest. An order may be a number for a tuple of modes; equal ones go from left.
template <class B = Evaluate>
constexpr Layout make_ordered_layout(const IntTuple& shape, const IntTuple& order, Math<B> math = {"make_ordered_layout"}) {
  return {shape, compact_strides(shape, detail::expand_order(order, shape, Math<>{math.operation}), math)};
}

/// Compact, in the order of the layout's strides, dynamic ones last.
template <class B = Evaluate> constexpr Layout make_layout_like(const Layout& layout, Math<B> math = {"make_layout_like"}) {
  return detail::compact_like(layout, detail::distances(layout, math), math);
}

/// The same with mode 0 first and from left to right: it is what one instruction reads or writes.
template <class B = Evaluate> constexpr Layout make_fragment_like(const Layout& layout, Math<B> math = {"make_fragment_like"}) {
  IntTuple keys = detail::distances(layout, math);
  for (int k = 0; k < layout.mode(0).count; k++) keys.leaves[k] = -1;
  return detail::compact_like(layout, keys, math);
}

/// Copies of the block that cover a shape, with as few as do; the order says where the next copy is. Mode i is coalesced.
template <class B = Evaluate>
constexpr Layout tile_to_shape(const Layout& block, const IntTuple& shape, const IntTuple& order,
                               Math<B> math = {"tile_to_shape"}) {
  const int rank = block.rank() > shape.rank() ? block.rank() : shape.rank();
  const Layout padded = block.pad(rank, Mode{1, 0});
  const IntTuple target = shape.pad(rank, 1);
  IntTuple copies, profile;
  for (int i = 0; i < rank; i++) {
    copies.push(math.ceil_div(size(target.mode(i), math), size(padded.mode(i), math)));
    profile.push(1);
  }
  return coalesce(blocked_product(padded, make_ordered_layout(copies, order, math), math), profile, math);
}

template <class B = Evaluate>
constexpr Layout tile_to_shape(const Layout& block, const IntTuple& shape, Math<B> math = {"tile_to_shape"}) {
  return tile_to_shape(block, shape, 0, math);
}

}  // namespace jaxator::layout
