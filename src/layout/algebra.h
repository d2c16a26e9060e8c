/// @file
/// The algebra of layouts: coalesce, composition, complement, inverses. Each operation proves what it needs from static numbers
/// and known divisors, or refuses.
#pragma once

#include "src/layout/layout.h"

namespace jaxator::layout {

namespace detail {

/// Adjacent modes that count on become one, modes of size 1 vanish. With keep_last not even the last one does: it is what says
/// how indices go on past the end.
template <class B> constexpr Layout join_modes(const Layout& layout, bool keep_last, Math<B> math) {
  Layout result;
  for (math.leaf = 0; math.leaf < layout.count; math.leaf++) {
    const Mode mode = layout.leaves[math.leaf];
    if (mode.shape.is(1) && !(keep_last && math.leaf + 1 == layout.count)) continue;
    if (result.count > 0) {
      Mode& previous = result.leaves[result.count - 1];
      const bool comparable = previous.shape.is_static() || previous.stride.is(0);
      if (comparable && previous.stride.is_static() && same(math.mul(previous.shape, previous.stride), mode.stride)) {
        previous.shape = math.mul(previous.shape, mode.shape);
        continue;
      }
    }
    result.push(mode);
  }
  return result.count == 0 ? Layout(Mode{1, 0}) : result.unwrap();
}

}  // namespace detail

/// The shortest flat layout with the same index for every number. 1:0 where there is only one.
template <class B = Evaluate> constexpr Layout coalesce(const Layout& layout, Math<B> math = {"coalesce"}) {
  return detail::join_modes(layout, false, math);
}

namespace detail {

/// apply(i, mode i, math) in the place of each of the first modes; those past them stay as they are.
template <class B, class Apply>
constexpr Layout map_modes(const Layout& layout, int modes, Math<B> math, const Apply& apply) {
  const int rank = layout.rank();
  math.require(modes <= rank, "{0} modes do not fit a layout of {1}", modes, rank);
  Layout result;
  for (int i = 0; i < rank; i++) {
    const Layout mode = layout.mode(i);
    result.push(i < modes ? apply(i, mode, math) : mode);
    math = math.after(mode.count);
  }
  return result;
}

}  // namespace detail

/// The same for each mode of the layout that is a leaf of the profile. Modes past the profile stay as they are.
template <class B = Evaluate>
constexpr Layout coalesce(const Layout& layout, const IntTuple& profile, Math<B> math = {"coalesce"}) {
  if (profile.is_leaf()) return coalesce(layout, math);
  return detail::map_modes(layout, profile.rank(), math,
                           [&](int i, const Layout& mode, const Math<B>& part) { return coalesce(mode, profile.mode(i), part); });
}

/// What is done to a layout: a layout for the whole of it, or a tuple with one for each mode (4 means 4:1), or * to leave it as
/// it is. The `levels` outermost tuples are of the second kind, so that [[4:1,2:1],8:1] reaches inside a mode.
struct Tile {
  Layout modes;
  int levels = 0;

  constexpr Tile() = default;
  constexpr Tile(const Layout& layout, int tuples = 0) : modes(layout), levels(tuples) {}  // NOLINT: implicit
  constexpr Tile(Int number) : modes(Mode{number, number.is_keep() ? keep : 1}) {          // NOLINT: implicit
    Math<>{"tile"}.require(number.is_keep() || (number.basis == 0 && known_minimum(number) > 0),
                           "{0} must be a positive number or *", number);
  }
  template <Number N> constexpr Tile(N number) : Tile(Int(number)) {}  // NOLINT: implicit

  constexpr bool operator==(const Tile&) const = default;
  constexpr bool is_layout() const { return levels == 0 || modes.is_leaf(); }
  constexpr bool is_keep() const { return modes.is_leaf() && modes.leaves[0].shape.is_keep(); }
  constexpr int rank() const { return modes.rank(); }
  constexpr Tile mode(int i) const { return {modes.mode(i), levels - 1}; }

  /// Adds the tile of a mode to a tuple of them. Beside a tuple, a layout must be a single leaf.
  constexpr void push(const Tile& part) {
    const int inner = part.levels < levels ? levels - 1 : part.levels;
    const bool fits = (inner == levels - 1 || modes.depth() <= 1) && (part.levels == inner || part.modes.is_leaf());
    Math<>{"tile"}.require(levels > 0 && fits, "a tuple stands beside a nested layout");
    levels = inner + 1;
    modes.push(part.modes);
  }
};

template <class... Part> constexpr Tile make_tile(const Part&... parts) {
  Tile tile;
  tile.levels = 1;
  (tile.push(parts), ...);
  return tile;
}

namespace detail {

/// apply(mode, layout of the tile, math) for each mode that the tile has a layout for.
template <class B, class Apply>
constexpr Layout by_tile(const Layout& layout, const Tile& tile, const Math<B>& math, const Apply& apply) {
  if (tile.is_keep()) return layout;
  if (tile.is_layout()) return apply(layout, tile.modes, math);
  return map_modes(layout, tile.rank(), math,
                   [&](int i, const Layout& mode, const Math<B>& part) { return by_tile(mode, tile.mode(i), part, apply); });
}

/// j -> A(j * stride) for j < shape, where A has flat modes that cannot be joined. Mode by mode of A, the strided numbers either
/// step over it, or stay inside it, or fill it evenly and go on in the next one. `used` is the largest place in each mode that
/// earlier leaves reach: with this one's added nothing may be carried into the next mode, or A(x + y) would not be A(x) + A(y).
template <class B> constexpr Layout compose_leaf(const Layout& a, Mode b, uint64_t* used, const Math<B>& math) {
  const auto times = [&](Int n, Int step) {
    const bool positive = (n.is_static() && step.is_static()) || (known_minimum(n) > 0 && known_minimum(step) > 0);
    math.require(positive || step.is(0), "stride {0} times {1}: a dynamic stride must be positive", n, step);
    return math.mul(n, step);
  };
  auto [shape, stride] = b;
  if (shape.is(1)) return Mode{1, 0};
  if (stride.is(0)) return b;
  math.require(a.count == 1 || known_minimum(stride) > 0, "stride {0} must not be negative", stride);
  Layout result;
  for (int k = 0; k + 1 < a.count && !shape.is(1); k++) {
    const auto [extent, step] = a.leaves[k];
    if (divides(extent, stride)) {
      stride = math.div(stride, extent);
      continue;
    }
    int64_t last = 0;
    Int inside = shape;
    if (!shape.is_static() || !stride.is_static() || __builtin_mul_overflow(shape.value - 1, stride.value, &last) ||
        last >= known_minimum(extent)) {
      math.require(divides(stride, extent), "stride {0} and the left side's shape {1}: neither divides the other", stride,
                   extent);
      inside = math.div(extent, stride);
      math.require(divides(inside, shape), "shape {0} must be a multiple of {1} = {2} / stride", shape, inside, extent);
      last = known_minimum(extent) - stride.value;
    }
    used[k] += static_cast<uint64_t>(last);
    math.require(used[k] < static_cast<uint64_t>(known_minimum(extent)),
                 "stride {0}: with the other leaves it reaches past the left side's shape {1}", b.stride, extent);
    result.push(Mode{inside, times(stride, step)});
    shape = inside == shape ? 1 : math.div(shape, inside);
    stride = 1;
  }
  if (!shape.is(1)) result.push(Mode{shape, times(stride, a.leaves[a.count - 1].stride)});
  return result.unwrap();
}

/// The same with a basis stride: j -> A's mode of that name at j * coefficient.
template <class B> constexpr Layout compose_basis(Layout a, Mode b, uint64_t* used, const Math<B>& math) {
  for (int level = 0; level < basis_levels(b.stride.basis); level++) {
    const int i = basis_mode(b.stride.basis, level);
    math.require(i < a.rank(), "stride {0} names a mode of {1}", b.stride, a.rank());
    used += a.take(0, i).count;
    a = a.mode(i);
  }
  return compose_leaf(join_modes(a, true, math), {b.shape, Int(b.stride.value, b.stride.divisor, 0)}, used, math);
}

}  // namespace detail

/// R with R(i) = A(B(i)) for every coordinate of B, in B's nesting. Basis strides in B pick modes of A.
template <class B = Evaluate> constexpr Layout composition(const Layout& a, const Layout& b, Math<B> math = {"composition"}) {
  const Layout joined = detail::join_modes(a, true, math);
  uint64_t used[kMaxLeaves] = {};
  math.leaf = -1;
  return b.substitute([&](const Mode& mode) {
    math.leaf++;
    return mode.stride.basis == 0 ? detail::compose_leaf(joined, mode, used, math) : detail::compose_basis(a, mode, used, math);
  });
}

/// Mode by mode. Modes past the tile stay as they are.
template <class B = Evaluate> constexpr Layout composition(const Layout& a, const Tile& tile, Math<B> math = {"composition"}) {
  return detail::by_tile(a, tile, math,
                         [](const Layout& mode, const Layout& part, const Math<B>& at) { return composition(mode, part, at); });
}

namespace detail {

/// Without modes of one element, which would take up room.
constexpr void push_mode(Layout& layout, Mode mode) {
  if (!mode.shape.is(1)) layout.push(mode);
}

}  // namespace detail

/// The layout C with ascending strides whose indices fill the gaps that those of L leave: (L, C) has no index twice, and every
/// index below n once where all strides of L divide evenly. Modes of stride 0 count as one element.
template <class B = Evaluate> constexpr Layout complement(const Layout& layout, Int n = 1, Math<B> math = {"complement"}) {
  Layout result;
  Int extent = 1;
  const Order order = order_of(layout.stride());
  for (int i = 0; i < order.count; i++) {
    math.leaf = order.at[i];
    const auto [shape, stride] = layout.leaves[math.leaf];
    if (shape.is(1) || stride.is(0)) continue;
    math.require(stride.basis == 0 && known_minimum(stride) > 0, "stride {0} must be a positive number", stride);
    math.require(extent.is_static() && known_minimum(stride) >= extent.value,
                 "stride {0} must be at least {1}, the extent of the smaller strides", stride, extent);
    detail::push_mode(result, {math.div(stride, extent), extent});
    extent = math.mul(stride, shape);
  }
  detail::push_mode(result, {math.ceil_div(n, extent), extent});
  return coalesce(result, math);
}

/// R with L(R(i)) = i, as long as the strides of L can be chained from 1.
template <class B = Evaluate> constexpr Layout right_inverse(const Layout& layout, Math<B> math = {"right_inverse"}) {
  const Layout joined = coalesce(layout, math);
  const IntTuple place = compact_strides(joined.shape(), math);
  Layout result;
  Int next = 1;
  const Order order = order_of(joined.stride());
  for (int i = 0; i < order.count; i++) {
    const auto [shape, stride] = joined.leaves[order.at[i]];
    if (!same(stride, next)) continue;
    result.push(Mode{shape, place.leaves[order.at[i]]});
    next = math.mul(next, shape);
  }
  return coalesce(result, math);
}

/// R with R(L(i)) = i. L must be injective: each stride a multiple of the extent of the next smaller one.
template <class B = Evaluate> constexpr Layout left_inverse(const Layout& layout, Math<B> math = {"left_inverse"}) {
  const IntTuple place = compact_strides(layout.shape(), math);
  Layout result;
  Int gaps = size(layout, math);
  detail::for_digits(layout, math, [&](int leaf, Int extent) {
    const Int gap = math.div(layout.leaves[leaf].stride, extent);
    detail::push_mode(result, {gap, gaps});
    result.push(Mode{layout.leaves[leaf].shape, place.leaves[leaf]});
    gaps = math.mul(gaps, gap);
  });
  return coalesce(result, math);
}

}  // namespace jaxator::layout
