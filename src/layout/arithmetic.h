/// @file
/// Arithmetic on leaves. What is static is folded, what is dynamic is left to a builder, and the divisor of each answer is
/// derived. Every operation of the algebra takes a Math last, which also names it in errors.
#pragma once

#include "src/layout/error.h"

namespace jaxator::layout {

/// What a builder is asked for. Operands of div, ceil_div and mod are not negative, and divisors are positive.
enum class Op : uint8_t { add, sub, mul, div, ceil_div, mod, min, max, bit_and, bit_xor };

/// The default builder: dynamic leaves hold numbers, and so do the answers.
struct Evaluate {};

/// A builder for reasoning without numbers: answers hold nothing, only their divisors count.
struct Unknown {
  constexpr int64_t operator()(Op, Int, Int) const { return 0; }
};

/// A compiler's builder is a function int64_t(Op, Int a, Int b): called where a or b is dynamic, it returns what the answer
/// holds. Coefficients of basis vectors come to it as plain numbers.
template <class Builder = Evaluate> struct Math {
  const char* operation = "layout";
  Builder builder = {};
  int leaf = -1;  // what is at work, for errors; -1: no leaf
  int first = 0;  // leaves before the part of a layout that is at work

  /// For the part of a layout with this many leaves before it.
  constexpr Math after(int leaves) const { return {operation, builder, -1, first + leaves}; }

  constexpr void require(bool holds, const char* rule, Int a = 0, Int b = 0, Int c = 0) const {
    if (!holds) precondition_violated({operation, rule, leaf < 0 ? -1 : first + leaf, {a, b, c}});
  }

  constexpr Int add(Int a, Int b) const { return b.is(0) ? a : a.is(0) ? b : make(Op::add, a, b, common(a, b)); }
  constexpr Int sub(Int a, Int b) const { return b.is(0) ? a : make(Op::sub, a, b, common(a, b)); }
  constexpr Int min(Int a, Int b) const { return make(Op::min, a, b, common(a, b)); }
  constexpr Int max(Int a, Int b) const { return make(Op::max, a, b, common(a, b)); }

  constexpr Int mul(Int a, Int b) const {
    if (a.is(0) || b.is(1)) return a;
    if (b.is(0) || a.is(1)) return b;
    require(a.basis == 0 || b.basis == 0, "{0} and {1} cannot be multiplied", a, b);
    uint64_t divisor = 0;
    // A divisor past 64 bits is as good as one that is known: that of the dynamic factor still holds.
    if (__builtin_mul_overflow(known_divisor(a), known_divisor(b), &divisor) || divisor > INT64_MAX)
      divisor = known_divisor(a.is_dynamic() ? a : b);
    a.basis = b.basis = a.basis | b.basis;
    return make(Op::mul, a, b, divisor);
  }

  constexpr Int div(Int a, Int b) const { return quotient(Op::div, a, b); }
  constexpr Int ceil_div(Int a, Int b) const { return quotient(divides(b, a) ? Op::div : Op::ceil_div, a, b); }
  constexpr Int mod(Int a, Int b) const { return divides(b, a) ? Int(0) : scaled(Op::mod, a, b, common(a, b)); }

  /// Bits of x that are in a static mask.
  constexpr Int bit_and(Int x, Int mask) const {
    const uint64_t zeros = lowest_bit(known_divisor(x)), lowest = lowest_bit(known_divisor(mask));
    if (zeros == 0 || zeros > known_divisor(mask)) return 0;
    return make(Op::bit_and, x, mask, zeros > lowest ? zeros : lowest);
  }
  constexpr Int bit_xor(Int a, Int b) const {
    return b.is(0) ? a : a.is(0) ? b : make(Op::bit_xor, a, b, lowest_bit(known_divisor(a) | known_divisor(b)));
  }

 private:
  static constexpr uint64_t lowest_bit(uint64_t bits) { return bits & (0 - bits); }
  static constexpr uint64_t common(Int a, Int b) { return gcd(known_divisor(a), known_divisor(b)); }

  constexpr Int quotient(Op op, Int a, Int b) const {
    if (a.is(0) || b.is(1)) return a;
    return scaled(op, a, b, divides(b, a) ? known_divisor(a) / known_divisor(b) : 1);
  }

  /// A division of the coefficient of a.
  constexpr Int scaled(Op op, Int a, Int b, uint64_t divisor) const {
    require(b.basis == 0 && known_minimum(b) > 0, "{0} cannot be divided by {1}", a, b);
    b.basis = a.basis;
    return make(op, a, b, divisor);
  }

  constexpr Int make(Op op, Int a, Int b, uint64_t divisor) const {
    require(!a.is_keep() && !b.is_keep(), "a number was expected, not *");
    require(a.basis == b.basis, "{0} and {1} count in different modes", a, b);
    const uint32_t basis = a.basis;
    a.basis = b.basis = 0;
    const bool known = a.is_static() && b.is_static();
    if constexpr (requires(Builder build) { build(op, a, b); }) {
      if (!known) return {builder(op, a, b), static_cast<int64_t>(divisor), basis};
    }
    const int64_t number = evaluate(op, a, b);
    return {number, known ? 0 : static_cast<int64_t>(divisor), number == 0 && known ? 0 : basis};
  }

  constexpr int64_t evaluate(Op op, Int left, Int right) const {
    const int64_t a = left.value, b = right.value;
    if (op == Op::div || op == Op::ceil_div || op == Op::mod) {
      require(b > 0, "{0} cannot be divided by {1}", left, right);
      require(a >= 0 || a % b == 0, "{0} must not be negative", left);
      return op == Op::mod ? a % b : a / b + (op == Op::ceil_div && a % b > 0);
    }
    if (op == Op::min) return a < b ? a : b;
    if (op == Op::max) return a < b ? b : a;
    if (op == Op::bit_and) return a & b;
    if (op == Op::bit_xor) return a ^ b;
    int64_t number = 0;
    const bool overflow = op == Op::add   ? __builtin_add_overflow(a, b, &number)
                          : op == Op::sub ? __builtin_sub_overflow(a, b, &number)
                                          : __builtin_mul_overflow(a, b, &number);
    require(!overflow, "{0} and {1}: the result does not fit in 64 bits", left, right);
    return number;
  }
};

/// A leaf of run time that holds its number.
constexpr Int dynamic(int64_t number, int64_t divisor = 1) {
  const Math<> math{"dynamic"};
  math.require(divisor > 0, "the divisor {0} must be positive", divisor);
  math.require(number > 0 && number % divisor == 0, "{0} must be a positive multiple of {1}", number, divisor);
  return symbol(divisor, number);
}

}  // namespace jaxator::layout
