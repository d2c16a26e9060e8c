// Dynamic leaves: an operation is run once with a builder that only records what is asked of it, as a compiler would, and the
// laws must then hold for whatever numbers the leaves turn out to be.
#include <set>

#include "tests/cpp/layout_recording.h"

namespace jaxator::layout::testing {
namespace {

const std::vector<int64_t> kStrides = {0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 48};

/// check(numbers) for three choices of numbers, after an operation that was not refused.
template <class Operation, class Check>
void for_numbers(Dynamic& dynamic, int64_t& accepted, Operation&& operation, Check&& check) {
  if (refused(operation)) return;
  accepted++;
  for (int choice = 0; choice < 3; choice++) check(dynamic.numbers());
}

/// Indices below n to try, all or a few of them.
std::vector<int64_t> samples(int64_t n) {
  std::vector<int64_t> all;
  for (int64_t i = 0; i < n; i += n < 60 ? 1 : n / 37) all.push_back(i);
  return all;
}

TEST(LayoutDynamic, Composition) {
  Dynamic dynamic(1);
  int64_t accepted = 0;
  for (int round = 0; round < 60000; round++) {
    dynamic.begin();
    const Layout a = dynamic.layout(kStrides), b = dynamic.layout({1, 2, 3, 4, 6, 8, 12, 24});
    Layout r;
    for_numbers(
        dynamic, accepted, [&] { r = composition(a, b, dynamic.math("composition")); },
        [&](const Substitution& at) {
          const Layout left = at(a), right = at(b), result = at(r);
          for (int64_t i : samples(size(right).value))
            ASSERT_EQ(result(i), left(right(i))) << to_string(a) << " o " << to_string(b) << " = " << to_string(r) << " at " << i;
        });
    if (HasFailure()) return;
  }
  EXPECT_GT(accepted, 10000);
}

TEST(LayoutDynamic, Coalesce) {
  Dynamic dynamic(2);
  int64_t accepted = 0, joined = 0;
  for (int round = 0; round < 20000; round++) {
    dynamic.begin();
    const Layout layout = dynamic.layout(kStrides, 4);
    Layout r;
    for_numbers(
        dynamic, accepted, [&] { r = coalesce(layout, dynamic.math("coalesce")); },
        [&](const Substitution& at) {
          const Layout want = at(layout), got = at(r);
          ASSERT_EQ(size(got), size(want)) << to_string(layout);
          for (int64_t i : samples(size(want).value)) ASSERT_EQ(got(i), want(i)) << to_string(layout) << " = " << to_string(r);
        });
    joined += !layout.is_static() && r.count < layout.count;
    if (HasFailure()) return;
  }
  EXPECT_EQ(accepted, 20000);
  EXPECT_GT(joined, 1000);
}

TEST(LayoutDynamic, Complement) {
  Dynamic dynamic(3);
  int64_t accepted = 0;
  for (int round = 0; round < 30000; round++) {
    dynamic.begin();
    const Layout layout = dynamic.layout({1, 2, 4, 8, 12, 16, 48}, 4);
    const Int n = dynamic.leaf(96, 2);
    Layout r;
    for_numbers(
        dynamic, accepted, [&] { r = complement(layout, n, dynamic.math("complement")); },
        [&](const Substitution& at) {
          const Layout both = make_layout(at(layout), at(r));
          if (size(both).value > 2000) return;
          std::set<int64_t> seen;
          for (int64_t i : indices(both)) ASSERT_TRUE(seen.insert(i).second) << to_string(layout) << " and " << to_string(r);
        });
    if (HasFailure()) return;
  }
  EXPECT_GT(accepted, 5000);
}

TEST(LayoutDynamic, Inverses) {
  Dynamic dynamic(4);
  int64_t right = 0, left = 0;
  for (int round = 0; round < 30000; round++) {
    dynamic.begin();
    const Layout layout = dynamic.layout({1, 2, 4, 8, 12, 16, 48}, 4);
    Layout r;
    for_numbers(
        dynamic, right, [&] { r = right_inverse(layout, dynamic.math("right_inverse")); },
        [&](const Substitution& at) {
          const Layout function = at(layout), inverse = at(r);
          for (int64_t i : samples(size(inverse).value)) ASSERT_EQ(function(inverse(i)), i) << to_string(layout) << to_string(r);
        });
    for_numbers(
        dynamic, left, [&] { r = left_inverse(layout, dynamic.math("left_inverse")); },
        [&](const Substitution& at) {
          const Layout function = at(layout), inverse = at(r);
          for (int64_t i : samples(size(function).value)) ASSERT_EQ(inverse(function(i)), i) << to_string(layout) << to_string(r);
        });
    if (HasFailure()) return;
  }
  EXPECT_EQ(right, 30000);
  EXPECT_GT(left, 3000);
}

TEST(LayoutDynamic, DividesAndProducts) {
  Dynamic dynamic(5);
  int64_t divided = 0, multiplied = 0;
  for (int round = 0; round < 6000; round++) {
    dynamic.begin();
    const Layout layout = dynamic.layout({1, 2, 4, 8, 12, 16, 48}, 4), other = dynamic.layout({1, 2, 4, 8}, 6);
    const Math<Record> math = dynamic.math("test");
    Layout r, gaps;  // the layout that moves the tile, or that says where copies are
    for_numbers(
        dynamic, divided,
        [&] {
          r = logical_divide(layout, other, math);
          gaps = complement(other, size(layout, math), math);
        },
        [&](const Substitution& at) {
          const Layout whole = at(layout), tiler = at(other), result = at(r), rest = at(gaps);
          ASSERT_EQ(size(result.mode(0)), size(tiler));
          ASSERT_EQ(size(result.mode(1)), size(rest));
          for (int64_t j : samples(size(rest).value))
            for (int64_t i : samples(size(tiler).value))
              ASSERT_EQ(result(i, j), whole(tiler(i) + rest(j))) << to_string(layout) << " / " << to_string(other);
        });
    for_numbers(
        dynamic, multiplied,
        [&] {
          r = logical_product(layout, other, math);
          gaps = complement(layout, math.mul(size(layout, math), cosize(other, math)), math);
        },
        [&](const Substitution& at) {
          const Layout block = at(layout), copies = at(other), result = at(r), where = at(gaps);
          for (int64_t j : samples(size(copies).value))
            for (int64_t i : samples(size(block).value))
              ASSERT_EQ(result(i, j), block(i) + where(copies(j))) << to_string(layout) << " x " << to_string(other);
        });
    if (HasFailure()) return;
  }
  EXPECT_GT(divided, 500);
  EXPECT_GT(multiplied, 200);
}

TEST(LayoutDynamic, IndicesAndCoordinates) {
  Dynamic dynamic(6);
  int64_t indices = 0, coordinates = 0, sizes = 0;
  for (int round = 0; round < 30000; round++) {
    dynamic.begin();
    const Layout layout = dynamic.layout(kStrides, 3);
    const Int number = dynamic.leaf(dynamic.any(100), 2);
    IntTuple index, coordinate, digits;
    Int elements, extent;
    for_numbers(
        dynamic, indices, [&] { index = crd2idx(number, layout, dynamic.math("crd2idx")); },
        [&](const Substitution& at) {
          ASSERT_EQ(at.value(index.leaves[0]), at(layout)(at.value(number))) << to_string(layout) << " at " << to_string(number);
        });
    for_numbers(
        dynamic, coordinates,
        [&] {
          digits = idx2crd(number, layout.shape(), dynamic.math("idx2crd"));
          coordinate = idx2crd(crd2idx(number, layout, dynamic.math("")).leaves[0], layout, dynamic.math("idx2crd"));
        },
        [&](const Substitution& at) {
          const IntTuple want = idx2crd(at.value(number), at(layout).shape());
          if (at.value(number) >= size(at(layout)).value) return;
          for (int k = 0; k < layout.count; k++) {
            ASSERT_EQ(at.value(digits.leaves[k]), want.leaves[k].value) << to_string(layout);
            ASSERT_EQ(at.value(coordinate.leaves[k]), want.leaves[k].value) << to_string(layout);
          }
        });
    for_numbers(
        dynamic, sizes, [&] { elements = size(layout, dynamic.math("size")), extent = cosize(layout, dynamic.math("cosize")); },
        [&](const Substitution& at) {
          ASSERT_EQ(at.value(elements), size(at(layout)).value);
          ASSERT_EQ(at.value(extent), cosize(at(layout)).value);
        });
    if (HasFailure()) return;
  }
  EXPECT_EQ(indices, 30000);
  EXPECT_GT(coordinates, 3000);
  EXPECT_EQ(sizes, 30000);
}

TEST(LayoutDynamic, RecastAndSwizzle) {
  Dynamic dynamic(7);
  int64_t wider = 0, narrower = 0, swizzled = 0;
  for (int round = 0; round < 15000; round++) {
    dynamic.begin();
    const Layout layout = dynamic.layout({1, 2, 4, 8, 16}, 3);
    const int64_t factor = int64_t{1} << (1 + dynamic.any(3));
    Layout r;
    const auto image = [](const Layout& of) {
      const auto all = testing::indices(of);
      return std::set<int64_t>(all.begin(), all.end());
    };
    for_numbers(
        dynamic, wider, [&] { r = upcast(layout, factor, dynamic.math("upcast")); },
        [&](const Substitution& at) {
          if (size(at(layout)).value > 500) return;
          std::set<int64_t> want;
          for (int64_t i : image(at(layout))) want.insert(i / factor);
          ASSERT_EQ(image(at(r)), want) << to_string(layout) << " / " << factor << " = " << to_string(r);
        });
    for_numbers(
        dynamic, narrower, [&] { r = downcast(layout, factor, dynamic.math("downcast")); },
        [&](const Substitution& at) {
          if (size(at(layout)).value > 500) return;
          std::set<int64_t> want;
          for (int64_t i : image(at(layout)))
            for (int64_t part = 0; part < factor; part++) want.insert(i * factor + part);
          ASSERT_EQ(image(at(r)), want) << to_string(layout) << " * " << factor << " = " << to_string(r);
        });
    const int bits = static_cast<int>(dynamic.any(4)), distance = bits + static_cast<int>(dynamic.any(2));
    const Swizzle swizzle(bits, static_cast<int>(dynamic.any(4)), dynamic.any(2) == 0 ? distance : -distance);
    const Int number = dynamic.leaf(dynamic.any(1000), 1);
    IntTuple index;
    for_numbers(
        dynamic, swizzled, [&] { index = crd2idx(number, swizzle, dynamic.math("crd2idx")); },
        [&](const Substitution& at) {
          ASSERT_EQ(at.value(index.leaves[0]), swizzle(at.value(number))) << to_string(swizzle) << to_string(number);
        });
    if (HasFailure()) return;
  }
  EXPECT_GT(wider, 3000);
  EXPECT_GT(narrower, 3000);
  EXPECT_EQ(swizzled, 15000);
}

TEST(LayoutDynamic, ArithmeticKeepsDivisors) {
  std::mt19937_64 random(8);
  const Math<> math{"test"};
  for (int round = 0; round < 200000; round++) {
    const auto any = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
    const auto leaf = [&]() -> Int {
      const int64_t divisor = 1 + any(24), number = divisor * (1 + any(20));
      return any(3) == 0 ? Int(number) : dynamic(number, divisor);
    };
    const Int a = leaf(), b = leaf();
    const int64_t x = a.value, y = b.value;
    const auto check = [&](Int got, int64_t want) {
      ASSERT_EQ(got.value, want) << to_string(a) << " and " << to_string(b);
      ASSERT_TRUE(got.is_static() || want % got.divisor == 0) << to_string(a) << " and " << to_string(b);
      ASSERT_TRUE(got.is_static() || !a.is_static() || !b.is_static());
    };
    check(math.add(a, b), x + y);
    check(math.sub(a, b), x - y);
    check(math.mul(a, b), x * y);
    check(math.min(a, b), std::min(x, y));
    check(math.max(a, b), std::max(x, y));
    check(math.div(a, b), x / y);
    check(math.ceil_div(a, b), (x + y - 1) / y);
    check(math.mod(a, b), x % y);
    check(math.bit_and(a, y), x & y);
    check(math.bit_xor(a, b), x ^ y);
    check(math.mod(math.add(a, b), 8), (x + y) % 8);  // of an answer that may be 0
    check(math.div(math.mod(a, 12), 4), x % 12 / 4);
    if (HasFailure()) return;
  }
}

TEST(LayoutDynamic, DerivedDivisors) {
  const Math<> math{"test"};
  EXPECT_EQ(math.add(dynamic(24, 8), 4), dynamic(28, 4));
  EXPECT_EQ(math.mul(dynamic(24, 8), 3), dynamic(72, 24));
  EXPECT_EQ(math.div(dynamic(24, 8), 4), dynamic(6, 2));
  EXPECT_EQ(math.div(dynamic(24, 8), 3), dynamic(8, 1));
  EXPECT_EQ(math.ceil_div(dynamic(24, 8), 8), dynamic(3, 1));
  EXPECT_EQ(math.mod(dynamic(24, 8), 4), Int(0));
  EXPECT_EQ(math.mod(dynamic(24, 8), 12), symbol(4, 0));
  EXPECT_EQ(math.mul(dynamic(24, 8), 0), Int(0));
  EXPECT_EQ(math.mul(dynamic(24, 8), 1), dynamic(24, 8));
  // A product of divisors past 64 bits: one of them still holds.
  EXPECT_EQ(math.mul(dynamic(int64_t{1} << 40, int64_t{1} << 40), dynamic(2, 2)).divisor, int64_t{1} << 41);
  const Math<Unknown> unknown{"test"};
  EXPECT_EQ(unknown.mul(symbol(int64_t{1} << 40), symbol(int64_t{1} << 40)).divisor, int64_t{1} << 40);
}

/// What CuTe's own issues ask of dynamic shapes.
TEST(LayoutDynamic, AnswersThatAreDefined) {
  const Math<Unknown> math{"test"};
  EXPECT_EQ(coalesce(L("(192,?):(1,192)"), math), L("?{div=192}:1"));
  EXPECT_EQ(right_inverse(L("(16,?):(1,16)"), math), L("?{div=16}:1"));
  EXPECT_EQ(composition(L("(4096,8192):(1,4096)"), L("(32,?,8,128):(E0,8E1,E1,32E0)"), math),
            L("(32,?,8,128):(1,32768,4096,32)"));
  EXPECT_EQ(logical_divide(L("?{div=128}:1"), Layout(128), math), L("(128,?):(1,128)"));
  EXPECT_EQ(zipped_divide(L("(?{div=128},?):(1,?{div=8})"), make_tile(64, 32), math),
            L("((64,32),(?{div=2},?)):((1,?{div=8}),(64,?{div=256}))"));
  EXPECT_EQ(complement(L("4:?{div=4}"), 100, math), L("(?{div=4},?):(1,?{div=16})"));
  EXPECT_EQ(left_inverse(L("(4,?):(1,?{div=4})"), math), L("(4,?,?):(1,?{div=4},4)"));
  EXPECT_EQ(logical_product(L("(?{div=2},4):(4,1)"), Layout(3), math), L("((?{div=2},4),3):((4,1),?{div=8})"));
}

}  // namespace
}  // namespace jaxator::layout::testing
