#include "src/flight/dialect/layout.h"

#include <stdexcept>

namespace jaxator::flight {
namespace {

using layout::Int;

std::string_view view(llvm::StringRef text) { return {text.data(), text.size()}; }

int64_t static_product(const layout::IntTuple& shape) {
  const Int size = layout::size(shape);
  return size.is_static() ? size.value : 0;
}

}  // namespace

int64_t ViewLayout::static_size() const { return static_product(layout.shape()); }
int64_t TileLayout::size() const { return static_product(shape); }
int64_t TileLayout::threads() const { return static_product(spread.mode(0).shape()); }
int64_t TileLayout::values() const { return static_product(spread.mode(1).shape()); }

ViewLayout parse_view_layout(llvm::StringRef text) {
  ViewLayout result;
  if (text.starts_with("S")) {
    const auto composed = layout::parse<layout::SwizzledLayout>(view(text));
    if (!composed.offset.is_leaf()) throw std::invalid_argument("the swizzle's offset must be a number");
    result = {composed.inner, composed.offset.leaves[0], composed.outer, 0};
  } else {
    result.layout = layout::parse<layout::Layout>(view(text));
  }
  const auto count = [&](Int& leaf) {
    if (leaf.basis != 0) throw std::invalid_argument("stride " + to_string(leaf) + " must be a plain number");
    if (leaf.is_dynamic()) leaf.value = ++result.dynamic_leaves;
  };
  count(result.offset);
  for (int k = 0; k < result.layout.count; k++) count(result.layout.leaves[k].shape);
  for (int k = 0; k < result.layout.count; k++) count(result.layout.leaves[k].stride);
  return result;
}

layout::Layout parse_spread(llvm::StringRef text) {
  const auto spread = layout::parse<layout::Layout>(view(text));
  if (spread.rank() != 2)
    throw std::invalid_argument("a spread has the two modes (thread, value), not " + std::to_string(spread.rank()));
  if (!spread.is_static()) throw std::invalid_argument("a spread must be static");
  return spread;
}

TileLayout parse_tile_layout(llvm::StringRef shape, llvm::StringRef spread) {
  TileLayout result{layout::parse<layout::IntTuple>(view(shape)), parse_spread(spread)};
  if (result.shape.depth() != 1) throw std::invalid_argument("the shape must be a flat tuple");
  for (int k = 0; k < result.shape.count; k++) {
    const Int size = result.shape.leaves[k];
    if (!size.is_static() || size.basis != 0 || size.value < 1)
      throw std::invalid_argument("size " + to_string(size) + " of the shape must be a positive number");
  }
  const int64_t reached = layout::cosize(result.spread).value;
  if (reached > result.size())
    throw std::invalid_argument("the spread reaches index " + std::to_string(reached - 1) + " of " +
                                std::to_string(result.size()) + " elements");
  return result;
}

}  // namespace jaxator::flight
