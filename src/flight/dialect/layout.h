/// @file
/// Layouts of the dialect's types: text parsed by the layout library.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "src/layout/text.h"

namespace jaxator::flight {

/// A view's layout: coordinate -> swizzle(offset + layout(coordinate)), in elements. Dynamic leaves hold 1, 2, .. in the order of
/// the text.
struct ViewLayout {
  layout::Swizzle swizzle;
  layout::Int offset;
  layout::Layout layout;
  int dynamic_leaves = 0;

  bool swizzled() const { return swizzle.bits != 0; }
  /// Number of elements; 0 if it is not static.
  int64_t static_size() const;
};

/// A tile's shape and which element each thread's values are: (thread, value) -> index into the shape.
struct TileLayout {
  layout::IntTuple shape;
  layout::Layout spread;

  int64_t size() const;
  int64_t threads() const;
  int64_t values() const;
};

/// They throw std::invalid_argument, which names the rule.
ViewLayout parse_view_layout(llvm::StringRef text);
layout::Layout parse_spread(llvm::StringRef text);
TileLayout parse_tile_layout(llvm::StringRef shape, llvm::StringRef spread);

}  // namespace jaxator::flight
