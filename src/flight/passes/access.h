/// @file
/// How a thread's view is read or written: which elements stand side by side in memory, and how wide each instruction may be.
#pragma once

#include "src/flight/dialect/dialect.h"
#include "src/flight/dialect/layout.h"

namespace jaxator::flight {

/// Makes index arithmetic for the layout library: what a dynamic leaf holds is the place of its value here, counted from 1.
class IndexBuilder {
 public:
  IndexBuilder(mlir::OpBuilder& builder, mlir::Location location, mlir::ValueRange values)
      : builder_(builder), location_(location), values_(values.begin(), values.end()) {}

  int64_t operator()(layout::Op op, layout::Int a, layout::Int b);
  mlir::Value value(layout::Int leaf);
  /// The place of one more value.
  int64_t add(mlir::Value value) {
    values_.push_back(value);
    return int64_t(values_.size());
  }

 private:
  mlir::OpBuilder& builder_;
  mlir::Location location_;
  mlir::SmallVector<mlir::Value> values_;
};

/// Where a view's elements are. The index of each is a static number plus what dynamic strides add to it.
class Elements {
 public:
  explicit Elements(ViewType view);

  int64_t count() const { return int64_t(constants_.size()); }
  int64_t bytes() const { return bytes_; }
  /// Element b comes right after a, for every value of the dynamic leaves.
  bool adjacent(int64_t a, int64_t b) const;
  bool same_place(int64_t a, int64_t b) const { return groups_[a] == groups_[b] && constants_[a] == constants_[b]; }
  /// Of the address of an element, in bytes; a power of two.
  int64_t alignment(int64_t element) const;
  /// Elements from this one on that a swizzle keeps together if they are adjacent before it.
  int64_t kept_together(int64_t element) const;
  /// The elements in the order of memory, as far as that is known.
  mlir::SmallVector<int64_t> in_memory_order() const;

  /// Index of an element: the part that must be computed (a static 0 if there is none), and the rest.
  std::pair<layout::Int, int64_t> index(int64_t element, IndexBuilder& builder) const;

 private:
  uint64_t known_multiple(int64_t element) const;

  ViewLayout layout_;
  layout::Layout static_part_, dynamic_part_;
  int64_t bytes_, align_;
  mlir::SmallVector<int64_t> constants_;
  mlir::SmallVector<int> groups_;                // equal: the same digits at dynamic strides
  mlir::SmallVector<uint64_t> group_multiples_;  // what divides the dynamic part of a group
};

/// Elements that one instruction moves, in the order of memory.
using Piece = mlir::SmallVector<int64_t>;

/// The elements of one view, or of two that are copied one to the other, in pieces of at most `most` bytes whose number is a
/// power of two. With `aligned` each piece's address is a multiple of its size.
mlir::SmallVector<Piece> split_into_pieces(mlir::ArrayRef<const Elements*> sides, int64_t most, bool aligned);

}  // namespace jaxator::flight
