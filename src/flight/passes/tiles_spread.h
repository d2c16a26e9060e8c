/// @file
/// What a spread means: the coordinates of each thread's values, and how threads' parts fit together.
#pragma once

#include <optional>

#include "src/flight/passes/access.h"

namespace jaxator::flight {

using Coordinates = mlir::SmallVector<int64_t>;

/// thread / weight % size is one digit of a thread's number: it moves coordinate `mode` by `step`. Threads that differ only in
/// digits of mode -1 hold copies.
struct Digit {
  int64_t weight, size;
  int mode;
  int64_t step;
};

/// Coordinates are a thread's part plus a value's part. Throws std::invalid_argument where the spread's leaves do not split at
/// the shape's modes.
class Spread {
 public:
  Spread(const layout::IntTuple& shape, const layout::Layout& spread);
  explicit Spread(TileType tile);

  mlir::SmallVector<int64_t> shape;
  int64_t threads = 0;
  mlir::SmallVector<Digit> digits;
  mlir::SmallVector<Coordinates> values;
  layout::Layout layout;

  int rank() const { return int(shape.size()); }
  int64_t count() const { return int64_t(values.size()); }
  Coordinates thread_part(int64_t thread) const;
  bool has_copies() const;

  mlir::Value coordinate(mlir::OpBuilder& b, mlir::Location loc, mlir::Value thread, int mode) const;
  /// True for one thread of those that hold copies; nullptr if there are none.
  mlir::Value first_copy(mlir::OpBuilder& b, mlir::Location loc, mlir::Value thread) const;
  /// Which of a thread's values are within the bounds; nullptr: none can be outside.
  mlir::Value mask(mlir::OpBuilder& b, mlir::Location loc, mlir::Value thread, mlir::ValueRange bounds) const;
};

mlir::Value digit_value(mlir::OpBuilder& b, mlir::Location loc, mlir::Value thread, const Digit& digit);

/// Where each thread finds its values of one tile among its values of another: for each value of `to`, that value of `from` whose
/// coordinates are `project` of its own. Nothing if it is not the same for all threads, or needs values of other threads.
std::optional<mlir::SmallVector<int64_t>> value_map(const Spread& from, const Spread& to,
                                                    llvm::function_ref<Coordinates(Coordinates)> project);

/// Makes views of parts of a view.
class ViewPart {
 public:
  ViewPart(mlir::OpBuilder& b, mlir::Location loc, ViewOp view);

  /// Elements `values` from the index `start` on.
  mlir::Value part(const layout::Layout& values, layout::Int start);
  /// A number of run time that is a multiple of this, for coordinates.
  layout::Int handle(mlir::Value value, int64_t multiple_of = 1) { return layout::symbol(multiple_of, indices_.add(value)); }
  layout::Int index_of(const layout::IntTuple& coordinate, const layout::Layout& layout) {
    return layout::crd2idx(coordinate, layout, math()).leaves[0];
  }
  const ViewLayout& view_layout() const { return view_layout_; }

 protected:
  struct Shared {
    IndexBuilder* builder;
    int64_t operator()(layout::Op op, layout::Int a, layout::Int b) const { return (*builder)(op, a, b); }
  };
  layout::Math<Shared> math() { return {"view", {&indices_}}; }

 private:
  mlir::OpBuilder& b_;
  mlir::Location loc_;
  ViewOp view_;
  ViewLayout view_layout_;
  IndexBuilder indices_;
};

/// A thread's part of a view: mode 1 of the spread composed with the view's layout, from a start that depends on the thread.
class ThreadView : public ViewPart {
 public:
  ThreadView(mlir::OpBuilder& b, mlir::Location loc, ViewOp view, const layout::Layout& spread, mlir::Value thread);

  /// All values of the thread.
  mlir::Value whole() { return values_from(values_, 0); }
  /// Some of them: from a start within `values()`.
  mlir::Value values_from(const layout::Layout& values, layout::Int start) {
    return part(values, math().add(thread_start_, start));
  }
  const layout::Layout& values() const { return values_; }

 private:
  layout::Layout values_;
  layout::Int thread_start_;
};

}  // namespace jaxator::flight
