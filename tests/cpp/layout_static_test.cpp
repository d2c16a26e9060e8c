// The core laws as constant expressions: that this file compiles is the test. And layouts as template arguments.
#include <gtest/gtest.h>

#include "src/layout/offset.h"
#include "src/layout/recast.h"

namespace jaxator::layout::testing {
namespace {

constexpr Layout kCompact(tuple(4, tuple(2, 3)));
constexpr Layout kPermuted(tuple(4, tuple(2, 3)), tuple(3, tuple(12, 1)));
constexpr Layout kSpaced(tuple(tuple(2, 2), 3), tuple(tuple(24, 2), 8));

/// Calls law(shape) for every shape (a, (b, c)) of up to `size` elements.
template <class Law> constexpr bool for_shapes(int64_t size, Law&& law) {
  for (int64_t a = 1; a <= size; a++)
    for (int64_t b = 1; a * b <= size; b++)
      for (int64_t c = 1; a * b * c <= size; c++)
        if (!law(tuple(a, tuple(b, c)))) return false;
  return true;
}

constexpr bool same_indices(const Layout& a, const Layout& b) {
  for (int64_t i = 0; i < size(a).value; i++)
    if (a(i) != b(i)) return false;
  return size(a) == size(b);
}

static_assert(for_shapes(8, [](const IntTuple& shape) {
  const Layout layout(shape, compact_strides(shape, tuple(1, tuple(2, 0))));
  return same_indices(coalesce(layout), layout);
}));

static_assert(for_shapes(8, [](const IntTuple& shape) {
  const Layout layout(shape, compact_strides(shape, tuple(1, tuple(2, 0))));
  const Layout right = right_inverse(layout), left = left_inverse(layout);
  for (int64_t i = 0; i < size(layout).value; i++)
    if (layout(right(i)) != i || left(layout(i)) != i) return false;
  return true;
}));

static_assert(for_shapes(6, [](const IntTuple& shape) {
  const Layout layout(shape, compact_strides(shape, tuple(0, tuple(2, 1))));
  const Layout rest = complement(layout, 12);
  uint64_t seen = 0;
  for (int64_t j = 0; j < size(rest).value; j++)
    for (int64_t i = 0; i < size(layout).value; i++) {
      const uint64_t bit = uint64_t{1} << (layout(i) + rest(j));
      if ((seen & bit) != 0) return false;
      seen |= bit;
    }
  return (seen & 0xfff) == 0xfff;
}));

static_assert([] {
  constexpr Layout a(tuple(4, 6), tuple(1, 100));
  for (int64_t n : {1, 2, 3, 6, 12})
    for (int64_t t : {1, 2, 4, 8}) {
      if (n * t > 24 || (t < 4 && n * t > 4 && n * t % 4 != 0)) continue;
      const Layout r = composition(a, Layout(n, t));
      for (int64_t i = 0; i < n; i++)
        if (r(i) != a(i * t)) return false;
    }
  return true;
}());

static_assert([] {
  const Layout zipped = zipped_divide(kPermuted, make_tile(2, 2));
  for (int64_t i = 0; i < 4; i++)
    for (int64_t j = 0; j < 6; j++)
      if (zipped(tuple(i % 2, j % 2), tuple(i / 2, j / 2)) != kPermuted(i, j)) return false;
  return true;
}());

static_assert(composition(Layout(tuple(6, 2), tuple(8, 2)), Layout(tuple(4, 3), tuple(3, 1))) == kSpaced);
static_assert(blocked_product(Layout(2, 1), Layout(3, 1)) == Layout(tuple(tuple(2, 3)), tuple(tuple(1, 2))));
static_assert(recast(Layout(tuple(8, 4), tuple(4, 1)), 32, 8) == Layout(tuple(8, 1), tuple(1, 1)));

// Dynamic leaves, as a compiler sees them.
constexpr Layout kDynamic(tuple(symbol(64), symbol(1)), tuple(1, symbol(8)));
static_assert(zipped_divide(kDynamic, make_tile(64, 4), Math<Unknown>{"zipped_divide"}).mode(1) ==
              Layout(tuple(symbol(1), symbol(1)), tuple(64, symbol(32))));

// Template arguments: equal layouts, however they came about, are one type.
template <auto layout> struct Shared {};
static_assert(std::is_same_v<Shared<Layout(tuple(4, 8))>, Shared<Layout(tuple(4, 8), tuple(1, 4))>>);
static_assert(std::is_same_v<Shared<kSpaced.take(0, 1).unwrap()>, Shared<Layout(tuple(2, 2), tuple(24, 2))>>);
static_assert(!std::is_same_v<Shared<Layout(tuple(4, 8))>, Shared<Layout(tuple(4, tuple(8)))>>);
constexpr SwizzledLayout kSwizzled =
    tile_to_shape(composition(Swizzle(3, 3, 3), Layout(tuple(8, 64), tuple(64, 1))), tuple(16, 128));
static_assert(std::is_same_v<Shared<slice(tuple(keep, 0), kSwizzled)>, Shared<kSwizzled.with(kSwizzled.outer.select(0))>>);

static_assert(offset<kSpaced>(3, 2) == kSpaced(3, 2));
static_assert(std::is_same_v<decltype(offset<kSpaced>(3u, 2u)), unsigned>);

TEST(LayoutStatic, OffsetsOfKernels) {
  for (int i = 0; i < 24; i++) EXPECT_EQ(offset<kCompact>(i), i);
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 6; j++) EXPECT_EQ(offset<kPermuted>(i, j), kPermuted(i, j));
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 3; j++) EXPECT_EQ(offset<kSpaced>(int64_t{i}, j), kSpaced(i, j));
  for (unsigned i = 0; i < 16; i++)
    for (unsigned j = 0; j < 128; j++) EXPECT_EQ(offset<kSwizzled>(i, j), kSwizzled(i, j));
}

}  // namespace
}  // namespace jaxator::layout::testing
