/// @file
/// Layouts: functions from coordinates to indices, given by a shape and a stride of the same nesting. The leftmost mode is the
/// fastest. `template <Layout L>` works: a layout is a value without pointers.
#pragma once

#include "src/layout/tuple.h"

namespace jaxator::layout {

/// One leaf of a layout.
struct Mode {
  Int shape, stride;
  constexpr bool operator==(const Mode&) const = default;
};

struct Layout : Nested<Layout, Mode> {
  using Nested::Nested;
  constexpr Layout(const IntTuple& shape, const IntTuple& stride);
  /// Compact, the leftmost mode fastest.
  constexpr explicit Layout(const IntTuple& shape);

  constexpr bool operator==(const Layout&) const = default;

  constexpr IntTuple shape() const {
    return substitute<IntTuple>([](const Mode& mode) { return IntTuple(mode.shape); });
  }
  constexpr IntTuple stride() const {
    return substitute<IntTuple>([](const Mode& mode) { return IntTuple(mode.stride); });
  }

  constexpr bool is_static() const {
    for (int k = 0; k < count; k++)
      if (!leaves[k].shape.is_static() || !leaves[k].stride.is_static()) return false;
    return true;
  }

  /// The index of a coordinate, for layouts whose dynamic leaves hold numbers and whose strides are plain. One number counts
  /// through all modes; several are one for each mode.
  constexpr int64_t operator()(int64_t coordinate) const;
  template <class First, class Second, class... Rest>
  constexpr int64_t operator()(const First& first, const Second& second, const Rest&... rest) const;
};

constexpr Layout make_layout(const IntTuple& shape) { return Layout(shape); }
constexpr Layout make_layout(const IntTuple& shape, const IntTuple& stride) { return Layout(shape, stride); }
/// The layouts as modes of one.
template <class... Part>
  requires(__is_same(Part, Layout) && ...)
constexpr Layout make_layout(const Part&... parts) {
  Layout result;
  (result.push(parts), ...);
  return result;
}

constexpr Layout::Layout(const IntTuple& shape, const IntTuple& stride) {
  Math<> math{"layout"};
  math.require(shape.congruent(stride), "shape and stride are nested differently");
  for (math.leaf = 0; math.leaf < shape.count; math.leaf++) {
    const Int s = shape.leaves[math.leaf], d = stride.leaves[math.leaf];
    math.require(!s.is_keep() && s.basis == 0 && known_minimum(s) > 0, "shape {0} must be a positive number", s);
    math.require(!d.is_keep(), "stride * must be a number");
    add(Mode{s, d}, shape.begins[math.leaf], shape.ends[math.leaf]);
  }
}

/// Number of coordinates.
template <class B = Evaluate> constexpr Int size(const IntTuple& shape, Math<B> math = {"size"}) {
  Int product = 1;
  for (math.leaf = 0; math.leaf < shape.count; math.leaf++) product = math.mul(product, shape.leaves[math.leaf]);
  return product;
}
template <class B = Evaluate> constexpr Int size(const Layout& layout, Math<B> math = {"size"}) {
  return size(layout.shape(), math);
}

/// Strides of a compact layout in which the leaf with the smallest key has stride 1, and so on.
template <class B = Evaluate>
constexpr IntTuple compact_strides(const IntTuple& shape, const IntTuple& keys, Math<B> math = {"compact_strides"}) {
  IntTuple stride = shape;
  Int next = 1;
  const Order order = order_of(keys);
  for (int i = 0; i < order.count; i++) {
    math.leaf = order.at[i];
    stride.leaves[math.leaf] = next;
    next = math.mul(next, shape.leaves[math.leaf]);
  }
  return stride;
}

/// The same from left to right.
template <class B = Evaluate> constexpr IntTuple compact_strides(const IntTuple& shape, Math<B> math = {"compact_strides"}) {
  return compact_strides(shape, shape.substitute([](Int) { return IntTuple(0); }), math);
}

constexpr Layout::Layout(const IntTuple& shape) : Layout(shape, compact_strides(shape, Math<>{"layout"})) {}

/// One more than the distance from the smallest to the largest index.
template <class B = Evaluate> constexpr Int cosize(const Layout& layout, Math<B> math = {"cosize"}) {
  Int last = 0;
  for (math.leaf = 0; math.leaf < layout.count; math.leaf++) {
    const auto [shape, stride] = layout.leaves[math.leaf];
    math.require(stride.basis == 0, "stride {0} must be a plain number", stride);
    const Int distance = known_minimum(stride) < 0 ? math.sub(0, stride) : stride;
    last = math.add(last, math.mul(math.sub(shape, 1), distance));
  }
  return math.add(last, 1);
}

namespace detail {

/// A sum with one term for each basis vector in it.
template <class B> struct Sum {
  IntTuple terms;

  constexpr void add(Int term, const Math<B>& math) {
    if (term.is(0)) return;
    for (int k = 0; k < terms.count; k++)
      if (terms.leaves[k].basis == term.basis) return (void)(terms.leaves[k] = math.add(terms.leaves[k], term));
    terms.push(term);
  }

  /// As a number, or as a tuple with the coefficients at the modes of their basis vectors and 0 elsewhere.
  constexpr IntTuple value(const Math<B>& math, uint32_t prefix = 0, int level = 0) const {
    IntTuple here, inner;
    int modes = 0;
    for (int k = 0; k < terms.count; k++) {
      const Int term = terms.leaves[k];
      if ((term.basis & ((1ull << 8 * level) - 1)) != prefix) continue;
      const int mode = basis_mode(term.basis, level);
      if (mode < 0) here = Int(term.value, term.divisor, 0);
      if (mode >= modes) modes = mode + 1;
    }
    math.require(here.count == 0 || modes == 0, "{0} is the sum of a number and of basis vectors", here.leaves[0]);
    if (modes == 0) return here.count == 0 ? IntTuple(0) : here;
    for (int i = 0; i < modes; i++) inner.push(value(math, prefix | static_cast<uint32_t>(i + 1) << 8 * level, level + 1));
    return inner;
  }
};

template <class B> constexpr void add_index(Sum<B>& sum, const IntTuple& coordinate, const Layout& layout, Math<B> math) {
  if (!coordinate.is_leaf()) {
    math.leaf = 0;
    math.require(coordinate.rank() == layout.rank(), "a coordinate of {0} modes does not fit {1} modes", coordinate.rank(),
                 layout.rank());
    for (int i = 0; i < layout.rank(); i++) {
      const Layout mode = layout.mode(i);
      add_index(sum, coordinate.mode(i), mode, math);
      math = math.after(mode.count);
    }
    return;
  }
  Int rest = coordinate.leaves[0];
  if (rest.is_keep()) return;
  for (math.leaf = 0; math.leaf < layout.count; math.leaf++) {
    const auto [shape, stride] = layout.leaves[math.leaf];
    const bool last = math.leaf + 1 == layout.count;
    sum.add(math.mul(last ? rest : math.mod(rest, shape), stride), math);
    if (!last) rest = math.div(rest, shape);
  }
}

}  // namespace detail

/// The index of a coordinate. A number for a tuple of modes is split by their sizes, the last mode takes the rest (and may run
/// past its size); * counts as 0. With basis strides the index is a tuple.
template <class B = Evaluate>
constexpr IntTuple crd2idx(const IntTuple& coordinate, const Layout& layout, Math<B> math = {"crd2idx"}) {
  detail::Sum<B> sum;
  if (layout.count > 0) detail::add_index(sum, coordinate, layout, math);
  math.leaf = -1;
  return sum.value(math);
}

constexpr int64_t Layout::operator()(int64_t coordinate) const {
  const Math<> math{"crd2idx"};
  int64_t index = 0;
  for (int k = 0; k < count; k++) {
    const int64_t shape = leaves[k].shape.value, digit = k + 1 < count ? coordinate % shape : coordinate;
    math.require(leaves[k].stride.basis == 0, "stride {0} must be a plain number", leaves[k].stride);
    math.require(coordinate >= 0 || count == 1, "{0} must not be negative", coordinate);
    int64_t term = 0;
    const bool overflow =
        __builtin_mul_overflow(digit, leaves[k].stride.value, &term) || __builtin_add_overflow(index, term, &index);
    math.require(!overflow, "{0} times stride {1}: the index does not fit in 64 bits", digit, leaves[k].stride);
    coordinate /= shape;
  }
  return index;
}

template <class First, class Second, class... Rest>
constexpr int64_t Layout::operator()(const First& first, const Second& second, const Rest&... rest) const {
  const IntTuple index = crd2idx(tuple(first, second, rest...), *this);
  Math<>{"crd2idx"}.require(index.is_leaf(), "the index of a layout with basis strides is a tuple");
  return index.leaves[0].value;
}

/// The coordinate in a shape with this place in the order of the leftmost mode fastest.
template <class B = Evaluate> constexpr IntTuple idx2crd(Int index, const IntTuple& shape, Math<B> math = {"idx2crd"}) {
  IntTuple coordinate = shape;
  for (math.leaf = 0; math.leaf < shape.count; math.leaf++) {
    const Int s = shape.leaves[math.leaf];
    const bool last = math.leaf + 1 == shape.count;
    coordinate.leaves[math.leaf] = last ? index : math.mod(index, s);
    if (!last) index = math.div(index, s);
  }
  return coordinate;
}

namespace detail {

/// Calls visit(leaf, extent of the leaves with smaller strides) for the leaves of an injective layout, smallest stride first.
/// Each stride must be a multiple of that extent: then the digits of an index are the coordinate.
template <class B, class Visit> constexpr void for_digits(const Layout& layout, Math<B> math, const Visit& visit) {
  Int extent = 1;
  const Order order = order_of(layout.stride());
  for (int i = 0; i < order.count; i++) {
    math.leaf = order.at[i];
    const auto [shape, stride] = layout.leaves[math.leaf];
    if (shape.is(1)) continue;
    math.require(stride.basis == 0 && known_minimum(stride) > 0, "stride {0} must be a positive number", stride);
    math.require(divides(extent, stride), "stride {0} must be a multiple of {1}, the extent of the smaller strides", stride,
                 extent);
    visit(math.leaf, extent);
    extent = math.mul(stride, shape);
  }
}

}  // namespace detail

/// The coordinate with this index: (index / stride) % shape for each leaf.
template <class B = Evaluate> constexpr IntTuple idx2crd(Int index, const Layout& layout, Math<B> math = {"idx2crd"}) {
  IntTuple coordinate = layout.shape().substitute([](Int) { return IntTuple(0); });
  detail::for_digits(layout, math, [&](int leaf, Int) {
    coordinate.leaves[leaf] = math.mod(math.div(index, layout.leaves[leaf].stride), layout.leaves[leaf].shape);
  });
  return coordinate;
}

namespace detail {

/// The modes of `from` where the coordinate has *, or with `dice` where it has numbers.
template <class Tuple, class B>
constexpr void pick(Tuple& result, const IntTuple& coordinate, const Tuple& from, bool dice, const Math<B>& math) {
  if (coordinate.is_leaf()) {
    if (coordinate.leaves[0].is_keep() != dice) result.push(from);
    return;
  }
  math.require(coordinate.rank() == from.rank(), "a coordinate of {0} modes does not fit {1} modes", coordinate.rank(),
               from.rank());
  for (int i = 0; i < from.rank(); i++) pick(result, coordinate.mode(i), from.mode(i), dice, math);
}

}  // namespace detail

/// The modes at which the coordinate has *, as one tuple. The index at which the slice begins is crd2idx of the coordinate.
template <class Tuple> constexpr Tuple slice(const IntTuple& coordinate, const Tuple& from) {
  Tuple result;
  detail::pick(result, coordinate, from, false, Math<>{"slice"});
  return result;
}

/// The modes at which the coordinate has numbers.
template <class Tuple> constexpr Tuple dice(const IntTuple& coordinate, const Tuple& from) {
  Tuple result;
  detail::pick(result, coordinate, from, true, Math<>{"dice"});
  return result;
}

}  // namespace jaxator::layout
