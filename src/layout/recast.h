/// @file
/// The same memory seen in elements of another width.
#pragma once

#include "src/layout/swizzle.h"

namespace jaxator::layout {

/// Indices of elements that are `factor` old ones wide. A mode inside one wide element shrinks, rounded up.
template <class B = Evaluate> constexpr Layout upcast(const Layout& layout, int64_t factor, Math<B> math = {"upcast"}) {
  math.require(factor > 0, "the factor {0} must be positive", factor);
  Layout result = layout;
  Int extent = 1;  // of the modes inside a wide element
  const Order order = order_of(layout.stride());
  for (int i = 0; i < order.count; i++) {
    math.leaf = order.at[i];
    const auto [shape, stride] = layout.leaves[math.leaf];
    math.require(stride.basis == 0, "stride {0} must be a plain number", stride);
    if (divides(factor, stride)) {
      result.leaves[math.leaf].stride = math.div(stride, factor);
      continue;
    }
    math.require(divides(stride, factor), "stride {0} and the factor {1}: neither divides the other", stride, factor);
    math.require(shape.is(1) || (extent.is_static() && stride.value >= extent.value),
                 "stride {0} must be at least {1}, the extent of the smaller strides", stride, extent);
    if (!shape.is(1)) extent = math.mul(stride, shape);
    result.leaves[math.leaf] = {math.ceil_div(shape, factor / stride.value), 1};
  }
  return result;
}

/// Indices of elements of which `factor` make an old one. They are counted by the first mode of stride 1.
template <class B = Evaluate> constexpr Layout downcast(const Layout& layout, int64_t factor, Math<B> math = {"downcast"}) {
  math.require(factor > 0, "the factor {0} must be positive", factor);
  if (factor == 1) return layout;
  int unit = -1;
  for (int k = layout.count - 1; k >= 0; k--) {
    const auto [shape, stride] = layout.leaves[k];
    if (stride.is(1) && (unit < 0 || !shape.is(1) || layout.leaves[unit].shape.is(1))) unit = k;
  }
  math.require(unit >= 0, "no stride is 1, so no mode can count the {0} parts of an element", factor);
  Layout result = layout;
  for (math.leaf = 0; math.leaf < layout.count; math.leaf++) {
    auto& [shape, stride] = result.leaves[math.leaf];
    if (math.leaf == unit)
      shape = math.mul(shape, factor);
    else
      stride = math.mul(stride, factor);
  }
  return result;
}

namespace detail {

/// With all bits higher by `step` for each two in the factor.
template <class B> constexpr Swizzle move_bits(const Swizzle& swizzle, int64_t factor, int step, const Math<B>& math) {
  int base = swizzle.base;
  for (int64_t rest = factor; rest != 1; rest /= 2, base += step)
    math.require(rest > 0 && rest % 2 == 0, "the factor {0} must be a power of two", factor);
  if (swizzle.bits == 0) return swizzle;
  math.require(base >= 0, "the lowest bit {0} is inside an element of {1}", swizzle.base, factor);
  return {swizzle.bits, base, swizzle.shift};
}

}  // namespace detail

template <class B = Evaluate> constexpr Swizzle upcast(const Swizzle& swizzle, int64_t factor, Math<B> math = {"upcast"}) {
  return detail::move_bits(swizzle, factor, -1, math);
}

template <class B = Evaluate> constexpr Swizzle downcast(const Swizzle& swizzle, int64_t factor, Math<B> math = {"downcast"}) {
  return detail::move_bits(swizzle, factor, 1, math);
}

template <class B = Evaluate>
constexpr SwizzledLayout upcast(const SwizzledLayout& layout, int64_t factor, Math<B> math = {"upcast"}) {
  math.require(layout.offset.is_leaf() && divides(factor, layout.offset.leaves[0]), "the offset {0} must be a multiple of {1}",
               layout.offset.leaves[0], factor);
  return {upcast(layout.inner, factor, math), math.div(layout.offset.leaves[0], factor), upcast(layout.outer, factor, math)};
}

template <class B = Evaluate>
constexpr SwizzledLayout downcast(const SwizzledLayout& layout, int64_t factor, Math<B> math = {"downcast"}) {
  math.require(layout.offset.is_leaf(), "the offset must be a number");
  return {downcast(layout.inner, factor, math), math.mul(layout.offset.leaves[0], factor), downcast(layout.outer, factor, math)};
}

/// From elements of old_bits to elements of new_bits. Of a layout, a swizzle or a swizzled layout.
template <class Any, class B = Evaluate>
constexpr Any recast(const Any& layout, int64_t new_bits, int64_t old_bits, Math<B> math = {"recast"}) {
  math.require(new_bits > 0 && old_bits > 0, "widths {0} and {1} must be positive", new_bits, old_bits);
  const int64_t common = static_cast<int64_t>(gcd(static_cast<uint64_t>(new_bits), static_cast<uint64_t>(old_bits)));
  return upcast(downcast(layout, old_bits / common, math), new_bits / common, math);
}

}  // namespace jaxator::layout
