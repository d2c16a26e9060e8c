/// @file
/// Nested tuples of a fixed capacity: values without a heap that can be template arguments.
#pragma once

#include "src/layout/arithmetic.h"

namespace jaxator::layout {

/// More leaves than any layout of a kernel had so far needs: a tiled operand of three modes with two levels of tiles is 12.
inline constexpr int kMaxLeaves = 16;
inline constexpr int kMaxDepth = 100;

/// Leaves in order, and for each how many tuples begin before it and end after it: ((2,3),4) begins 2, 0, 0 and ends 0, 1, 1.
/// A single leaf outside every tuple is legal, and so is the empty tuple, but not inside another: there it disappears. What
/// is past `count` stays zero, so that equal values are equal template arguments.
template <class Self, class Leaf> struct Nested {
  Leaf leaves[kMaxLeaves] = {};
  uint8_t begins[kMaxLeaves] = {}, ends[kMaxLeaves] = {};
  int count = 0;

  constexpr Nested() = default;
  constexpr Nested(const Leaf& leaf) : count(1) { leaves[0] = leaf; }  // NOLINT: implicit, a leaf is a tuple's simplest form

  constexpr bool operator==(const Nested&) const = default;

  constexpr bool is_leaf() const { return count == 1 && begins[0] == 0; }

  /// Number of modes. A leaf has one mode: itself.
  constexpr int rank() const {
    int modes = 0;
    for (int k = 0; k < count; k = mode_end(k)) modes++;
    return modes;
  }

  /// Levels of tuples: 0 of a leaf.
  constexpr int depth() const {
    int level = 0, deepest = 0;
    for (int k = 0; k < count; k++) {
      level += begins[k];
      if (level > deepest) deepest = level;
      level -= ends[k];
    }
    return deepest;
  }

  constexpr Self mode(int i) const {
    Math<>{"mode"}.require(i >= 0 && i < rank(), "{0} is not one of {1} modes", i, rank());
    if (is_leaf()) return self();
    int first = 0;
    for (; i > 0; i--) first = mode_end(first);
    Self result = cut(first, mode_end(first));
    if (first == 0) result.begins[0]--;
    if (mode_end(first) == count) result.ends[result.count - 1]--;
    return result;
  }

  /// Mode j of mode i, and so on.
  template <class... Mode> constexpr Self get(int i, Mode... inner) const {
    if constexpr (sizeof...(inner) == 0)
      return mode(i);
    else
      return mode(i).get(inner...);
  }

  /// Adds a mode, which must be another object, at the end of a tuple.
  constexpr void push(const Self& mode) {
    Math<>{"tuple"}.require(!is_leaf(), "a mode is added to a leaf");
    if (mode.count == 0) return;
    if (count > 0) ends[count - 1]--;
    add(mode, count == 0 ? 1 : 0, 1);
  }

  /// Modes [first, last).
  constexpr Self take(int first, int last) const {
    Self result;
    for (int i = first; i < last; i++) result.push(mode(i));
    return result;
  }

  /// The modes of these numbers, in this order.
  template <class... Mode> constexpr Self select(Mode... modes) const {
    Self result;
    (result.push(mode(modes)), ...);
    return result;
  }

  /// `with` in the place of modes [first, last).
  constexpr Self replace(int first, int last, const Self& with) const {
    Self result = take(0, first);
    result.push(with);
    for (int i = last; i < rank(); i++) result.push(mode(i));
    return result;
  }
  constexpr Self replace(int i, const Self& with) const { return replace(i, i + 1, with); }
  constexpr Self prepend(const Self& mode) const { return replace(0, 0, mode); }
  constexpr Self append(const Self& mode) const { return replace(rank(), rank(), mode); }
  /// Modes [first, last) become one mode.
  constexpr Self group(int first, int last) const { return replace(first, last, take(first, last)); }

  /// With `mode` added until there are `modes` modes.
  constexpr Self pad(int modes, const Self& mode) const {
    Self result = self();
    while (result.rank() < modes) result = result.append(mode);
    return result;
  }

  /// All leaves as the modes of one tuple; a leaf stays one.
  constexpr Self flatten() const {
    Self result;
    for (int k = 0; k < count; k++) result.push(leaves[k]);
    return is_leaf() ? self() : result;
  }

  /// A tuple of one mode as that mode.
  constexpr Self unwrap() const { return rank() == 1 ? mode(0) : self(); }

  /// The same nesting with part(leaf) in the place of each leaf.
  template <class Result = Self, class Part> constexpr Result substitute(Part&& part) const {
    Result result;
    for (int k = 0; k < count; k++) result.add(part(leaves[k]), begins[k], ends[k]);
    return result;
  }

  template <class Other, class Theirs> constexpr bool congruent(const Nested<Other, Theirs>& other) const {
    bool equal = count == other.count;
    for (int k = 0; equal && k < count; k++) equal = begins[k] == other.begins[k] && ends[k] == other.ends[k];
    return equal;
  }

  /// Adds leaves with tuples that begin before the first and end after the last of them. The tuples need not be closed yet.
  constexpr void add(const Self& part, int begin, int end) {
    const Math<> math{"tuple"};
    math.require(count + part.count <= kMaxLeaves, "{0} leaves are more than {1}", count + part.count, kMaxLeaves);
    math.require(part.count > 0, "an empty tuple cannot be part of another");
    for (int k = 0; k < part.count; k++) {
      leaves[count + k] = part.leaves[k];
      begins[count + k] = part.begins[k], ends[count + k] = part.ends[k];
    }
    math.require(begins[count] + begin <= kMaxDepth, "tuples are nested more than {0} deep", kMaxDepth);
    begins[count] += begin;
    count += part.count;
    ends[count - 1] += end;
  }

 private:
  constexpr const Self& self() const { return static_cast<const Self&>(*this); }

  /// The end of the mode that begins at a leaf.
  constexpr int mode_end(int leaf) const {
    int level = leaf == 0 ? 0 : 1;
    do {
      level += begins[leaf] - ends[leaf];
      leaf++;
    } while (level > 1);
    return leaf;
  }

  constexpr Self cut(int first, int last) const {
    Self result;
    for (int k = first; k < last; k++) {
      result.leaves[k - first] = leaves[k];
      result.begins[k - first] = begins[k], result.ends[k - first] = ends[k];
    }
    result.count = last - first;
    return result;
  }
};

/// A leaf or a tuple of tuples: a shape, a stride, a coordinate.
struct IntTuple : Nested<IntTuple, Int> {
  using Nested::Nested;
  template <Number N> constexpr IntTuple(N number) : Nested(Int(number)) {}  // NOLINT: implicit, as Int
  constexpr bool operator==(const IntTuple&) const = default;
};

template <class... Mode> constexpr IntTuple tuple(const Mode&... modes) {
  IntTuple result;
  (result.push(modes), ...);
  return result;
}

/// Leaf numbers in the order of their keys: static ones ascending, then the others; equal ones stay in place.
struct Order {
  int at[kMaxLeaves] = {};
  int count = 0;
};

constexpr Order order_of(const IntTuple& keys) {
  const auto before = [](Int a, Int b) { return a.is_static() && (!b.is_static() || a.value < b.value); };
  Order order;
  for (; order.count < keys.count; order.count++) {
    int place = order.count;
    for (; place > 0 && before(keys.leaves[order.count], keys.leaves[order.at[place - 1]]); place--)
      order.at[place] = order.at[place - 1];
    order.at[place] = order.count;
  }
  return order;
}

}  // namespace jaxator::layout
