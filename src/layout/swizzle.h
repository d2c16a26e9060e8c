/// @file
/// Swizzles and composed layouts: functions of a coordinate that no shape and stride can express.
#pragma once

#include "src/layout/product.h"

namespace jaxator::layout {

/// The index with `bits` bits, those from base + shift on, exclusive-ored into those from base on. A negative shift is the other
/// way: those from base on into those -shift above. Its own inverse.
struct Swizzle {
  int bits = 0, base = 0, shift = 0;

  constexpr Swizzle() = default;
  constexpr Swizzle(int mask_bits, int lowest, int distance) : bits(mask_bits), base(lowest), shift(distance) {
    const int apart = distance < 0 ? -distance : distance;
    const Math<> math{"swizzle"};
    math.require(bits >= 0 && base >= 0 && apart + bits + base < 63, "{0} bits from {1} on, {2} apart, are not bits of an index",
                 bits, base, shift);
    math.require(apart >= bits, "the {0} bits overlap those {1} apart", bits, apart);
  }
  constexpr bool operator==(const Swizzle&) const = default;

  /// What moves an index by a multiple of this moves its image by the same.
  constexpr int64_t period() const { return bits == 0 ? 1 : int64_t{1} << (base + bits + (shift < 0 ? -shift : shift)); }

  /// The bits that decide.
  constexpr int64_t mask() const { return ((int64_t{1} << bits) - 1) << (base + (shift > 0 ? shift : 0)); }
  constexpr int64_t operator()(int64_t x) const { return x ^ (shift > 0 ? (x & mask()) >> shift : (x & mask()) << -shift); }
};

/// c -> inner(offset + outer(c)). The inner part is a swizzle, a layout or another composed layout.
template <class Inner> struct Composed {
  Inner inner;
  IntTuple offset = Int(0);
  Layout outer;

  constexpr bool operator==(const Composed&) const = default;
  constexpr Composed with(const Layout& other) const { return {inner, offset, other}; }
  constexpr Composed mode(int i) const { return with(outer.mode(i)); }
  constexpr int rank() const { return outer.rank(); }
  constexpr IntTuple shape() const { return outer.shape(); }

  template <class... Coordinate> constexpr int64_t operator()(const Coordinate&... coordinate) const;
};

template <class Inner> Composed(Inner, IntTuple, Layout) -> Composed<Inner>;
using SwizzledLayout = Composed<Swizzle>;

namespace detail {

template <class B> constexpr IntTuple add_tuples(const IntTuple& a, const IntTuple& b, const Math<B>& math) {
  if (a.is_leaf() && b.is_leaf()) return math.add(a.leaves[0], b.leaves[0]);
  if (a.is_leaf() || b.is_leaf()) {
    const IntTuple& leaf = a.is_leaf() ? a : b;
    math.require(leaf.leaves[0].is(0), "{0} is added to a tuple", leaf.leaves[0]);
    return a.is_leaf() ? b : a;
  }
  IntTuple result;
  for (int i = 0; i < a.rank() || i < b.rank(); i++)
    result.push(add_tuples(i < a.rank() ? a.mode(i) : IntTuple(0), i < b.rank() ? b.mode(i) : IntTuple(0), math));
  return result;
}

}  // namespace detail

/// The swizzled index. Also of a leaf of run time.
template <class B = Evaluate>
constexpr IntTuple crd2idx(const IntTuple& index, const Swizzle& swizzle, Math<B> math = {"crd2idx"}) {
  math.require(index.is_leaf() && index.leaves[0].basis == 0, "a swizzle takes a number, not a tuple");
  const Int x = index.leaves[0], distance = int64_t{1} << (swizzle.shift < 0 ? -swizzle.shift : swizzle.shift);
  if (swizzle.bits == 0 || divides(swizzle.period(), x)) return x;
  const Int bits = math.bit_and(x, swizzle.mask());
  return math.bit_xor(x, swizzle.shift > 0 ? math.div(bits, distance) : math.mul(bits, distance));
}

template <class Inner, class B = Evaluate>
constexpr IntTuple crd2idx(const IntTuple& coordinate, const Composed<Inner>& layout, Math<B> math = {"crd2idx"}) {
  return crd2idx(detail::add_tuples(layout.offset, crd2idx(coordinate, layout.outer, math), math), layout.inner, math);
}

template <class Inner>
template <class... Coordinate> constexpr int64_t Composed<Inner>::operator()(const Coordinate&... coordinate) const {
  const IntTuple index = crd2idx(sizeof...(coordinate) == 1 ? tuple(coordinate...).mode(0) : tuple(coordinate...), *this);
  Math<>{"crd2idx"}.require(index.is_leaf(), "the index of a layout with basis strides is a tuple");
  return index.leaves[0].value;
}

template <class Inner> constexpr Int size(const Composed<Inner>& layout) { return size(layout.outer); }

constexpr SwizzledLayout composition(const Swizzle& swizzle, const Layout& layout) { return {swizzle, Int(0), layout}; }

template <class Inner, class Right, class B = Evaluate>
constexpr Composed<Inner> composition(const Composed<Inner>& left, const Right& right, Math<B> math = {"composition"}) {
  return left.with(composition(left.outer, right, math));
}

template <class Inner, class B = Evaluate>
constexpr Composed<Inner> coalesce(const Composed<Inner>& layout, const IntTuple& profile = Int(1), Math<B> math = {"coalesce"}) {
  return layout.with(coalesce(layout.outer, profile, math));
}

/// The modes at which the coordinate has *, from the index on at which the slice begins.
template <class Inner, class B = Evaluate>
constexpr Composed<Inner> slice(const IntTuple& coordinate, const Composed<Inner>& layout, Math<B> math = {"slice"}) {
  const IntTuple start = crd2idx(coordinate, layout.outer, math);
  return {layout.inner, detail::add_tuples(layout.offset, start, math), slice(coordinate, layout.outer)};
}

template <class Inner, class Tiler, class B = Evaluate>
constexpr Composed<Inner> logical_divide(const Composed<Inner>& layout, const Tiler& tiler, Math<B> math = {"logical_divide"}) {
  return layout.with(logical_divide(layout.outer, tiler, math));
}

template <class Inner, class Tiler, class B = Evaluate>
constexpr Composed<Inner> zipped_divide(const Composed<Inner>& layout, const Tiler& tiler, Math<B> math = {"zipped_divide"}) {
  return layout.with(zipped_divide(layout.outer, tiler, math));
}

template <class Inner, class Tiler, class B = Evaluate>
constexpr Composed<Inner> tiled_divide(const Composed<Inner>& layout, const Tiler& tiler, Math<B> math = {"tiled_divide"}) {
  return layout.with(tiled_divide(layout.outer, tiler, math));
}

template <class Inner, class Tiler, class B = Evaluate>
constexpr Composed<Inner> flat_divide(const Composed<Inner>& layout, const Tiler& tiler, Math<B> math = {"flat_divide"}) {
  return layout.with(flat_divide(layout.outer, tiler, math));
}

/// Copies of a swizzled block. It must end where the swizzle begins again, or its copies would be other permutations.
template <class B = Evaluate>
constexpr SwizzledLayout tile_to_shape(const SwizzledLayout& block, const IntTuple& shape, const IntTuple& order = 0,
                                       Math<B> math = {"tile_to_shape"}) {
  const Int extent = cosize(block.outer, math);
  math.require(divides(block.inner.period(), extent), "the block's extent {0} must be a multiple of the swizzle's period {1}",
               extent, block.inner.period());
  return block.with(tile_to_shape(block.outer, shape, order, math));
}

}  // namespace jaxator::layout
