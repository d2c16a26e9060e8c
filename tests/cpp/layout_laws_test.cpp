// The laws of the algebra by brute force: what an operation answers is compared with its definition, index by index.
#include <set>

#include "tests/cpp/layout_testing.h"

namespace jaxator::layout::testing {
namespace {

/// Every layout of up to three modes and `size` elements with these strides; nested ones up to `nested` elements, as what an
/// operation that flattens does with them does not depend on their size.
template <class Body> void for_layouts(int64_t size, int64_t nested, const std::vector<int64_t>& strides, Body&& body) {
  for (const IntTuple& shape : shapes_up_to(size)) {
    if (shape.depth() > 1 && layout::size(shape).value > nested) continue;
    for_strides(shape, strides, body);
    if (::testing::Test::HasFailure()) return;
  }
}

/// Every layout of up to three modes and `size` elements in which each stride, in any order, is the extent of the smaller ones
/// or two or three times that: what is injective and even.
template <class Body> void for_spaced_layouts(int64_t size, Body&& body) {
  for (const IntTuple& shape : shapes_up_to(size, 3, false))
    for (const IntTuple& keys : {T("(0,1,2)"), T("(0,2,1)"), T("(1,0,2)"), T("(1,2,0)"), T("(2,0,1)"), T("(2,1,0)")})
      for (int gaps = 0; gaps < 27; gaps++) {
        Layout layout(shape);
        const Order order = order_of(keys.take(0, shape.count));
        int64_t extent = 1, rest = gaps;
        for (int i = 0; i < order.count; i++, rest /= 3) {
          Mode& leaf = layout.leaves[order.at[i]];
          leaf.stride = extent * (1 + rest % 3);
          extent = leaf.stride.value * leaf.shape.value;
        }
        // Wide gaps and many elements say nothing that one of both does not.
        if (extent > 200 || rest != 0) continue;
        if ((shape.count > 1 || keys == T("(0,1,2)"))) body(layout);
        if (::testing::Test::HasFailure()) return;
      }
}

/// Layouts A whose strides make every carry visible: compact ones, and ones in which no two modes can be joined.
std::vector<Layout> left_sides(int64_t size) {
  std::vector<Layout> all;
  for (const IntTuple& shape : shapes_up_to(size, 3, false))
    for (const IntTuple& stride : {compact_strides(shape), compact_strides(shape, tuple(2, 1, 0).take(0, shape.count)),
                                   T("(1,101,10007)").take(0, shape.count), T("(10007,0,101)").take(0, shape.count)})
      all.push_back(shape.is_leaf() ? Layout(shape, stride.mode(0)) : Layout(shape, stride));
  return all;
}

bool injective(const Layout& layout) {
  const auto all = indices(layout);
  return std::set<int64_t>(all.begin(), all.end()).size() == all.size();
}

TEST(LayoutLaws, IndexOfACoordinate) {
  for_layouts(24, 24, {0, 1, 5, 7}, [](const Layout& layout) {
    for (int64_t i = 0; i < size(layout).value; i++) {
      const IntTuple coordinate = idx2crd(i, layout.shape());
      int64_t want = 0;
      for (int k = 0; k < layout.count; k++) want += coordinate.leaves[k].value * layout.leaves[k].stride.value;
      ASSERT_EQ(layout(i), want) << to_string(layout);
      ASSERT_EQ(crd2idx(coordinate, layout), IntTuple(want)) << to_string(layout);
      ASSERT_EQ(crd2idx(i, layout), IntTuple(want)) << to_string(layout);
      IntTuple modes;  // a number for each mode, whatever it is made of
      for (int m = 0; m < layout.rank(); m++) modes.push(crd2idx(coordinate.mode(m), Layout(layout.shape().mode(m))));
      ASSERT_EQ(crd2idx(modes, layout), IntTuple(want)) << to_string(layout);
    }
  });
}

TEST(LayoutLaws, IndicesGoOnPastTheEnd) {
  for_layouts(12, 12, {0, 1, 3}, [](const Layout& layout) {
    const Mode last = layout.leaves[layout.count - 1];
    const int64_t n = size(layout).value;
    for (int64_t i = n; i < 2 * n; i++) ASSERT_EQ(layout(i), layout(i - n) + last.shape.value * last.stride.value);
  });
}

TEST(LayoutLaws, Cosize) {
  for_layouts(24, 24, {0, 1, 2, 5, 64}, [](const Layout& layout) {
    const auto all = indices(layout);
    ASSERT_EQ(cosize(layout).value, *std::max_element(all.begin(), all.end()) + 1) << to_string(layout);
  });
}

TEST(LayoutLaws, Coalesce) {
  for_layouts(64, 24, {0, 1, 2, 4, 6, 8}, [](const Layout& layout) {
    const Layout joined = coalesce(layout);
    ASSERT_EQ(size(joined), size(layout)) << to_string(layout);
    ASSERT_LE(joined.depth(), 1);
    for (int64_t i = 0; i < size(layout).value; i++) ASSERT_EQ(joined(i), layout(i)) << to_string(layout);
    for (int k = 0; k < joined.count && joined.count > 1; k++) {
      const auto [shape, stride] = joined.leaves[k];
      ASSERT_GT(shape.value, 1) << to_string(layout);
      ASSERT_TRUE(k == 0 || joined.leaves[k - 1].shape.value * joined.leaves[k - 1].stride.value != stride.value);
    }
    ASSERT_EQ(coalesce(joined), joined);
    if (layout.is_leaf()) return;
    const Layout by_mode = coalesce(layout, T("(1,1,1)").take(0, layout.rank()));
    ASSERT_EQ(by_mode.rank(), layout.rank());
    for (int m = 0; m < layout.rank(); m++) ASSERT_EQ(by_mode.mode(m), coalesce(layout.mode(m))) << to_string(layout);
  });
}

/// R(i) = A(B(i)), and nothing else about B changes.
void check_composition(const Layout& a, const Layout& b, const Layout& r) {
  ASSERT_TRUE(b.is_leaf() || r.rank() == b.rank()) << to_string(r);
  for (int m = 0; m < b.rank() && !b.is_leaf(); m++) ASSERT_EQ(size(r.mode(m)), size(b.mode(m)));
  const int64_t n = size(b).value;
  ASSERT_EQ(size(r).value, n);
  for (int64_t i = 0; i < n; i++)
    ASSERT_EQ(r(i), a(b(i))) << to_string(a) << " o " << to_string(b) << " = " << to_string(r) << " at " << i;
}

TEST(LayoutLaws, CompositionWithEveryLeaf) {
  int64_t accepted = 0, all = 0;
  for (const Layout& a : left_sides(64)) {
    for (int64_t n = 1; n <= 64; n++)
      for (int64_t t = 0; t <= 66 && t * (n - 1) <= 100; t++, all++) {
        const Layout b(n, t);
        Layout r;
        if (refused([&] { r = composition(a, b); })) continue;
        accepted++;
        for (int64_t i = 0; i < n; i++)
          ASSERT_EQ(r(i), a(b(i))) << to_string(a) << " o " << to_string(b) << " = " << to_string(r) << " at " << i;
      }
  }
  EXPECT_GT(accepted * 2, all);
}

/// Where each leaf composes alone but not together, the sum of what they compose to is indeed wrong somewhere.
TEST(LayoutLaws, CompositionWithSeveralLeaves) {
  int64_t accepted = 0, carries = 0;
  std::mt19937_64 random(4);
  const auto lefts = left_sides(64);
  const auto shapes = shapes_up_to(16);
  const std::vector<int64_t> strides = {0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32};
  for (int round = 0; round < 200000; round++) {
    const Layout& a = lefts[random() % lefts.size()];
    Layout b(shapes[random() % shapes.size()]);
    for (int k = 0; k < b.count; k++) b.leaves[k].stride = strides[random() % strides.size()];
    Layout r;
    const std::string why = refusal([&] { r = composition(a, b); });
    if (why == "accepted") {
      accepted++;
      ASSERT_NO_FATAL_FAILURE(check_composition(a, b, r));
    } else if (why.find("with the other leaves") != std::string::npos) {
      Layout parts;
      if (refused([&] { parts = b.substitute([&](const Mode& leaf) { return composition(a, Layout(leaf)); }); })) continue;
      carries++;
      bool wrong = false;
      for (int64_t i = 0; i < size(b).value; i++) wrong |= parts(i) != a(b(i));
      ASSERT_TRUE(wrong) << to_string(a) << " o " << to_string(b) << " need not be refused: " << to_string(parts);
    }
  }
  EXPECT_GT(accepted, 50000);
  EXPECT_GT(carries, 500);
}

TEST(LayoutLaws, CompositionWithEveryPairOfLeaves) {
  const auto lefts = left_sides(20);
  for (const IntTuple& shape : shapes_up_to(8, 2))
    for_strides(shape, {0, 1, 2, 3, 4, 6, 8, 12}, [&](const Layout& b) {
      for (const Layout& a : lefts) {
        Layout r;
        if (refused([&] { r = composition(a, b); })) continue;
        ASSERT_NO_FATAL_FAILURE(check_composition(a, b, r));
      }
    });
}

TEST(LayoutLaws, CompositionIsAssociative) {
  std::mt19937_64 random(5);
  const auto shapes = shapes_up_to(16);
  int64_t compared = 0;
  const auto any = [&](const std::vector<int64_t>& strides) {
    Layout layout(shapes[random() % shapes.size()]);
    for (int k = 0; k < layout.count; k++) layout.leaves[k].stride = strides[random() % strides.size()];
    return layout;
  };
  for (int round = 0; round < 200000; round++) {
    const Layout a = any({1, 10, 100}), b = any({1, 2, 4, 8}), c = any({1, 2, 3, 4});
    if (cosize(c).value > size(b).value) continue;  // a composition says nothing about what is past B's end
    Layout left, right;
    if (refused([&] { left = composition(composition(a, b), c), right = composition(a, composition(b, c)); })) continue;
    compared++;
    ASSERT_EQ(indices(left), indices(right)) << to_string(a) << " o " << to_string(b) << " o " << to_string(c);
  }
  EXPECT_GT(compared, 10000);
}

/// No index twice, and where the strides divide evenly none below n missing.
void check_complement(const Layout& layout, int64_t n, const Layout& rest, bool even) {
  Layout image = layout;  // without the modes that stand still
  for (int k = 0; k < image.count; k++)
    if (image.leaves[k].stride.is(0)) image.leaves[k].shape = 1;
  const Layout both = make_layout(image, rest);
  std::vector<int> hits(static_cast<size_t>(std::max(n, cosize(both).value)));
  for (int64_t i = 0; i < size(both).value; i++)
    ASSERT_EQ(hits[static_cast<size_t>(both(i))]++, 0) << to_string(layout) << " and " << to_string(rest);
  for (int64_t i = 0; even && i < n; i++)
    ASSERT_EQ(hits[static_cast<size_t>(i)], 1) << to_string(layout) << " and " << to_string(rest) << " miss " << i;
  for (int k = 1; k < rest.count; k++) ASSERT_GT(rest.leaves[k].stride.value, rest.leaves[k - 1].stride.value);
  ASSERT_EQ(coalesce(rest), rest);
}

TEST(LayoutLaws, ComplementIsDisjoint) {
  int64_t accepted = 0;
  for_layouts(64, 8, {0, 1, 2, 3, 4, 12}, [&](const Layout& layout) {
    Layout rest;
    if (refused([&] { rest = complement(layout, 100); })) return;
    accepted++;
    ASSERT_NO_FATAL_FAILURE(check_complement(layout, 100, rest, false));
  });
  EXPECT_GT(accepted, 10000);
}

TEST(LayoutLaws, ComplementCovers) {
  for_spaced_layouts(64, [](const Layout& layout) {
    for (int64_t n : {int64_t{1}, cosize(layout).value + 100})
      ASSERT_NO_FATAL_FAILURE(check_complement(layout, n, complement(layout, n), true));
  });
}

TEST(LayoutLaws, ComplementRefusesOnlyWhatOverlapsOrInterleaves) {
  for_layouts(16, 16, {1, 2, 3, 4, 8}, [&](const Layout& layout) {
    ASSERT_TRUE(injective(layout) || refused([&] { complement(layout, 64); })) << to_string(layout);
  });
}

TEST(LayoutLaws, RightInverse) {
  for_layouts(64, 12, {0, 1, 2, 3, 4, 8, 12}, [](const Layout& layout) {
    const Layout inverse = right_inverse(layout);
    const int64_t n = size(inverse).value;
    for (int64_t i = 0; i < n; i++) ASSERT_EQ(layout(inverse(i)), i) << to_string(layout) << " " << to_string(inverse);
    // Whole where the layout is a permutation.
    const bool permutation = cosize(layout) == size(layout) && injective(layout);
    ASSERT_TRUE(!permutation || n == size(layout).value) << to_string(layout);
  });
}

void check_left_inverse(const Layout& layout, const Layout& inverse) {
  for (int64_t i = 0; i < size(layout).value; i++) {
    ASSERT_EQ(inverse(layout(i)), i) << to_string(layout) << " " << to_string(inverse);
    if (i >= 12) continue;
    ASSERT_EQ(idx2crd(layout(i), layout), idx2crd(i, layout.shape())) << to_string(layout);
  }
  ASSERT_TRUE(injective(inverse)) << to_string(inverse);
}

TEST(LayoutLaws, LeftInverse) {
  for_layouts(64, 8, {0, 1, 2, 3, 4, 12}, [&](const Layout& layout) {
    Layout inverse;
    if (refused([&] { inverse = left_inverse(layout); })) return;
    ASSERT_NO_FATAL_FAILURE(check_left_inverse(layout, inverse));
  });
}

TEST(LayoutLaws, LeftInverseOfWhatIsInjectiveAndEven) {
  for_spaced_layouts(64, [&](const Layout& layout) {
    const Layout inverse = left_inverse(layout);
    ASSERT_NO_FATAL_FAILURE(check_left_inverse(layout, inverse));
    ASSERT_TRUE(cosize(layout) != size(layout) || right_inverse(layout) == inverse) << to_string(layout);
  });
}

TEST(LayoutLaws, InvertibleIsWhatIsInjectiveAndEven) {
  for_layouts(16, 16, {1, 2, 4, 8, 16}, [](const Layout& layout) {
    // With powers of two for shapes and strides every injective layout has an inverse.
    for (int k = 0; k < layout.count; k++)
      if ((layout.leaves[k].shape.value & (layout.leaves[k].shape.value - 1)) != 0) return;
    ASSERT_EQ(refused([&] { left_inverse(layout); }), !injective(layout)) << to_string(layout);
  });
}

}  // namespace
}  // namespace jaxator::layout::testing
