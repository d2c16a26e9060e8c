/// @file
/// Leaves of tuples and layouts: integers known now, or known at run time with a known divisor.
#pragma once

#include <stdint.h>  // the one header that freestanding device code has

namespace jaxator::layout {

/// Integers of the language: what can be added to a pointer.
template <class T>
concept Number = requires(T number, const int* pointer) { pointer + number; };

/// One leaf. Three kinds share the struct, so that it can be part of a template argument:
/// - static: `value` is the number;
/// - dynamic: a positive multiple of `divisor`, known at run time. `value` is what the builder made of it: the number itself
///   with Evaluate, a handle in a compiler. Nothing is ever decided by it;
/// - keep: no number. "All of this mode" in a coordinate, "leave this mode as it is" in a tile.
/// A number, static or dynamic, may be the coefficient of a basis vector: the stride E(0, 1) counts in mode 1 of mode 0.
struct Int {
  int64_t value = 0;
  int64_t divisor = 0;  // 0: static; > 0: dynamic; < 0: keep
  uint32_t basis = 0;   // 0: a plain number; else a byte a level, outermost lowest: the mode + 1

  constexpr Int() = default;
  template <Number N> constexpr Int(N number) : value(static_cast<int64_t>(number)) {}  // NOLINT: implicit, as in tuple(2, 3)
  constexpr Int(int64_t held, int64_t divides, uint32_t path) : value(held), divisor(divides), basis(path) {}

  constexpr bool is_static() const { return divisor == 0; }
  constexpr bool is_dynamic() const { return divisor > 0; }
  constexpr bool is_keep() const { return divisor < 0; }
  /// Known to be this plain number.
  constexpr bool is(int64_t number) const { return divisor == 0 && basis == 0 && value == number; }
  constexpr bool operator==(const Int&) const = default;
};

inline constexpr Int keep{0, -1, 0};

/// A leaf of run time without a number, or with a compiler's handle for it.
constexpr Int symbol(int64_t divisor = 1, int64_t handle = 0) { return {handle, divisor, 0}; }

inline constexpr int kMaxBasisLevels = 4;

/// The basis vector of a mode: E(1) of mode 1, E(1, 0) of mode 0 inside it.
template <class... Mode> constexpr Int E(Mode... mode) {
  static_assert(sizeof...(mode) >= 1 && sizeof...(mode) <= kMaxBasisLevels, "a basis vector has 1 to 4 levels");
  uint32_t path = 0;
  int level = 0;
  ((path |= static_cast<uint32_t>(mode + 1) << 8 * level++), ...);
  return {1, 0, path};
}

constexpr int basis_levels(uint32_t basis) { return basis == 0 ? 0 : 1 + basis_levels(basis >> 8); }
/// The mode that level `level` of a basis vector names; -1 past its last level.
constexpr int basis_mode(uint32_t basis, int level) {
  return level < kMaxBasisLevels ? static_cast<int>(basis >> 8 * level & 0xff) - 1 : -1;
}

// What is known of a number without looking at run-time values.

/// A number that divides it; 0 for zero, which everything divides.
constexpr uint64_t known_divisor(Int a) {
  if (!a.is_static()) return static_cast<uint64_t>(a.divisor);
  return a.value < 0 ? 0 - static_cast<uint64_t>(a.value) : static_cast<uint64_t>(a.value);
}

/// No value of a leaf in a shape or a stride is smaller.
constexpr int64_t known_minimum(Int a) { return a.is_static() ? a.value : a.divisor; }

/// b is known to divide a.
constexpr bool divides(Int b, Int a) {
  return b.is_static() && b.value > 0 && !a.is_keep() && known_divisor(a) % known_divisor(b) == 0;
}

/// Known to be equal.
constexpr bool same(Int a, Int b) { return a.is_static() && a == b; }

constexpr uint64_t gcd(uint64_t a, uint64_t b) {
  while (b != 0) {
    const uint64_t rest = a % b;
    a = b, b = rest;
  }
  return a;
}

}  // namespace jaxator::layout
