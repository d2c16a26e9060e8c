/// @file
/// A compiler in small: operations on dynamic leaves are recorded, and evaluated later for any numbers.
#pragma once

#include "tests/cpp/layout_testing.h"

namespace jaxator::layout::testing {

struct Node {
  Op op;
  Int a, b;
};

/// Inputs are handles 1, 2, ..; answers the negative numbers of their nodes.
struct Record {
  std::vector<Node>* nodes;
  int64_t operator()(Op op, Int a, Int b) const {
    nodes->push_back({op, a, b});
    return -static_cast<int64_t>(nodes->size());
  }
};

class Substitution {
 public:
  Substitution(const std::vector<Node>& nodes, const std::vector<int64_t>& inputs) : inputs_(inputs) {
    for (const Node& node : nodes) results_.push_back(evaluate(node.op, value(node.a), value(node.b)));
  }

  int64_t value(Int leaf) const {
    if (leaf.is_static()) return leaf.value;
    const int64_t value =
        leaf.value > 0 ? inputs_[static_cast<size_t>(leaf.value - 1)] : results_[static_cast<size_t>(-leaf.value - 1)];
    EXPECT_EQ(value % leaf.divisor, 0) << value << " is no multiple of " << leaf.divisor;
    return value;
  }

  /// With numbers in place of the handles; dynamic ones must be positive multiples of their divisors.
  Layout operator()(Layout layout) const {
    for (int k = 0; k < layout.count; k++)
      for (Int* leaf : {&layout.leaves[k].shape, &layout.leaves[k].stride}) {
        const bool dynamic = leaf->is_dynamic();
        *leaf = Int(value(*leaf), 0, leaf->basis);
        EXPECT_TRUE(!dynamic || leaf->value > 0) << leaf->value;
      }
    return layout;
  }

 private:
  static int64_t evaluate(Op op, int64_t a, int64_t b) {
    switch (op) {
      case Op::add:
        return a + b;
      case Op::sub:
        return a - b;
      case Op::mul:
        return a * b;
      case Op::div:
        return a / b;
      case Op::ceil_div:
        return (a + b - 1) / b;
      case Op::mod:
        return a % b;
      case Op::min:
        return std::min(a, b);
      case Op::max:
        return std::max(a, b);
      case Op::bit_and:
        return a & b;
      case Op::bit_xor:
        return a ^ b;
    }
    return 0;
  }

  std::vector<int64_t> inputs_, results_;
};

/// Random layouts with handles for some leaves, numbers for those, and the operations that were recorded.
class Dynamic {
 public:
  explicit Dynamic(unsigned seed) : random_(seed) {
    shapes_ = shapes_up_to(36);
    for (int k = 0; k < 6; k++) inputs_.push_back(1), divisors_.push_back(1);
  }

  int64_t any(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }

  Math<Record> math(const char* operation) { return {operation, Record{&nodes_}}; }

  /// New handles, with divisors that the next numbers keep.
  void begin() {
    nodes_.clear();
    used_ = 0;
    for (int64_t& divisor : divisors_) divisor = std::vector<int64_t>{1, 2, 3, 4, 6, 8, 12, 16}[static_cast<size_t>(any(8))];
  }

  Int leaf(int64_t number, int one_in) {
    if (any(one_in) != 0 || used_ == static_cast<int>(divisors_.size())) return number;
    used_++;
    return symbol(divisors_[static_cast<size_t>(used_ - 1)], used_);
  }

  Layout layout(const std::vector<int64_t>& strides, int one_in = 3) {
    Layout result(shapes_[static_cast<size_t>(any(static_cast<int64_t>(shapes_.size())))]);
    const bool compact = any(2) == 0;
    for (int k = 0; k < result.count; k++) {
      auto& [shape, stride] = result.leaves[k];
      shape = leaf(shape.value, one_in);
      stride = leaf(compact ? stride.value : strides[static_cast<size_t>(any(static_cast<int64_t>(strides.size())))], one_in);
    }
    return result;
  }

  Substitution numbers() {
    for (size_t k = 0; k < inputs_.size(); k++) inputs_[k] = divisors_[k] * (1 + any(5));
    return Substitution(nodes_, inputs_);
  }

 private:
  std::mt19937_64 random_;
  std::vector<IntTuple> shapes_;
  std::vector<Node> nodes_;
  std::vector<int64_t> inputs_, divisors_;
  int used_ = 0;
};

}  // namespace jaxator::layout::testing
