/// @file
/// What both routes from tiles to code share.
#pragma once

#include "src/flight/dialect/dialect.h"
#include "src/flight/dialect/layout.h"

namespace jaxator::flight {

/// What a value of this type is combined in: half precision in f32, small integers in i32, so that sums are rounded once.
mlir::Type working_type(mlir::Type element);
/// To another width of the same kind of number. Both are scalars or both vectors.
mlir::Value convert(mlir::OpBuilder& b, mlir::Location loc, mlir::Value value, mlir::Type element);

/// Max and Min of floats are NaN if one operand is; of integers they are signed.
mlir::Value combine(mlir::OpBuilder& b, mlir::Location loc, Combine combine, mlir::Value x, mlir::Value y);
/// Pairs, then pairs of pairs: the order in which all routes add.
mlir::Value combine_all(mlir::OpBuilder& b, mlir::Location loc, Combine kind, mlir::SmallVector<mlir::Value> values);
/// What changes nothing.
mlir::TypedAttr neutral(Combine combine, mlir::Type element);

/// The body of a map for `count` elements at once: operands and results are vectors of that many. Whatever in it has no vector
/// form is done element by element.
mlir::SmallVector<mlir::Value> map_vectors(mlir::OpBuilder& b, MapOp map, mlir::ArrayRef<mlir::Value> inputs, int64_t count);

/// All bounds of a tile are at or past its shape: true on every block but the last ones. nullptr if nothing has to be asked.
mlir::Value is_full(mlir::OpBuilder& b, mlir::Location loc, mlir::ValueRange bounds, mlir::ArrayRef<int64_t> shape);

/// min(max(bound - begin, 0), size) as i32: how many of `size` coordinates from `begin` on are there.
mlir::Value elements_there(mlir::OpBuilder& b, mlir::Location loc, mlir::Value bound, mlir::Value begin, int64_t size);

mlir::SmallVector<int64_t> sizes_of(const layout::IntTuple& shape);
/// The sizes of a layout's modes, a flat tuple.
layout::IntTuple mode_sizes(const layout::Layout& layout);

/// Makes the text of a view's layout, with the values of its dynamic leaves in the order of the text.
struct ViewText {
  std::string text;
  mlir::SmallVector<layout::Int> dims;
};
ViewText view_text(const layout::Swizzle& swizzle, layout::Int offset, const layout::Layout& layout);

}  // namespace jaxator::flight
