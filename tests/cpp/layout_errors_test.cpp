// Every precondition: what breaks it is refused with the operation, the leaf and the values in the text, and in a constant
// expression it is not constant.
#include "tests/cpp/layout_testing.h"

namespace jaxator::layout::testing {
namespace {

constexpr int64_t kMax = INT64_MAX;

/// A call and the text with which it must be refused.
struct Case {
  std::function<void()> call;
  std::string text;
};

void check(const std::vector<Case>& cases) {
  for (const Case& c : cases) EXPECT_EQ(refusal(c.call), c.text);
}

TEST(LayoutErrors, Arithmetic) {
  const Math<> math{"sum"};
  const Math<Unknown> unknown{"sum"};
  check({
      {[&] { math.add(kMax, 1); }, "sum: 9223372036854775807 and 1: the result does not fit in 64 bits"},
      {[&] { math.sub(-kMax, 2); }, "sum: -9223372036854775807 and 2: the result does not fit in 64 bits"},
      {[&] { math.mul(kMax / 2, 3); }, "sum: 4611686018427387903 and 3: the result does not fit in 64 bits"},
      {[&] { math.mul(dynamic(kMax), 3); }, "sum: ?9223372036854775807 and 3: the result does not fit in 64 bits"},
      {[&] { math.div(4, 0); }, "sum: 4 cannot be divided by 0"},
      {[&] { math.mod(4, -2); }, "sum: 4 cannot be divided by -2"},
      {[&] { math.ceil_div(symbol(4), 0); }, "sum: ?{div=4} cannot be divided by 0"},
      {[&] { math.ceil_div(4, symbol(1)); }, "sum: 4 cannot be divided by ?"},
      {[&] { unknown.div(symbol(1), 0); }, "sum: ? cannot be divided by 0"},
      {[&] { math.div(-5, 2); }, "sum: -5 must not be negative"},
      {[&] { math.div(4, E(0)); }, "sum: 4 cannot be divided by E0"},
      {[&] { math.add(E(0), E(1)); }, "sum: E0 and E1 count in different modes"},
      {[&] { math.mul(E(0), E(1)); }, "sum: E0 and E1 cannot be multiplied"},
      {[&] { math.add(keep, 4); }, "sum: a number was expected, not *"},
      {[&] { dynamic(10, 4); }, "dynamic: 10 must be a positive multiple of 4"},
      {[&] { dynamic(-4, 4); }, "dynamic: -4 must be a positive multiple of 4"},
      {[&] { dynamic(4, 0); }, "dynamic: the divisor 0 must be positive"},
  });
}

TEST(LayoutErrors, TuplesAndLayouts) {
  const IntTuple eight = T("(1,2,3,4,5,6,7,8)"), nine = eight.append(9);
  IntTuple deep = 1;
  check({
      {[&] { tuple(eight, nine); }, "tuple: 17 leaves are more than 16"},
      {[&] {
         for (int i = 0; i < 300; i++) deep = tuple(deep);
       },
       "tuple: tuples are nested more than 100 deep"},
      {[&] {
         IntTuple leaf = 1;
         leaf.push(eight);
       },
       "tuple: a mode is added to a leaf"},
      {[&] { eight.mode(8); }, "mode: 8 is not one of 8 modes"},
      {[&] { eight.get(2, 1); }, "mode: 1 is not one of 1 modes"},
      {[&] { Layout(T("(4,2)"), T("(1,(2))")); }, "layout: shape and stride are nested differently"},
      {[&] { Layout(T("(4,0)"), T("(1,2)")); }, "layout: leaf 1: shape 0 must be a positive number"},
      {[&] { Layout(T("(4,*)"), T("(1,2)")); }, "layout: leaf 1: shape * must be a positive number"},
      {[&] { Layout(T("E0"), T("1")); }, "layout: leaf 0: shape E0 must be a positive number"},
      {[&] { Layout(T("(4,2)"), T("(1,*)")); }, "layout: leaf 1: stride * must be a number"},
      {[&] { Layout(tuple(kMax, 2, 2)); }, "layout: leaf 1: 9223372036854775807 and 2: the result does not fit in 64 bits"},
      {[&] { make_tile(make_tile(2, 2), L("(2,2):(1,2)")); }, "tile: a tuple stands beside a nested layout"},
      {[&] { make_tile(L("(2,2):(1,2)"), make_tile(2, 2)); }, "tile: a tuple stands beside a nested layout"},
      {[&] { make_tile(0); }, "tile: 0 must be a positive number or *"},
      {[&] { size(Layout(T("(4,2)"), T("(1,2)")).append(Layout(kMax, 0))); },
       "size: leaf 2: 8 and 9223372036854775807: the result does not fit in 64 bits"},
      {[&] { cosize(L("(4,2):(1,E0)")); }, "cosize: leaf 1: stride E0 must be a plain number"},
      {[&] { Swizzle(2, 0, 1); }, "swizzle: the 2 bits overlap those 1 apart"},
      {[&] { Swizzle(3, 60, 3); }, "swizzle: 3 bits from 60 on, 3 apart, are not bits of an index"},
  });
}

TEST(LayoutErrors, IndicesAndCoordinates) {
  const Layout layout = L("((2,3),4):((1,2),6)");
  check({
      {[&] { crd2idx(T("(1,2,3)"), layout); }, "crd2idx: leaf 0: a coordinate of 3 modes does not fit 2 modes"},
      {[&] { crd2idx(T("(1,(2,3))"), layout); }, "crd2idx: leaf 2: a coordinate of 2 modes does not fit 1 modes"},
      {[&] { crd2idx(-1, layout); }, "crd2idx: leaf 0: -1 must not be negative"},
      {[&] { layout(-1); }, "crd2idx: -1 must not be negative"},
      {[&] { layout(1, 2, 3); }, "crd2idx: leaf 0: a coordinate of 3 modes does not fit 2 modes"},
      {[&] { L("4:9223372036854775807")(2); }, "crd2idx: 2 times stride 9223372036854775807: the index does not fit in 64 bits"},
      {[&] { crd2idx(2, L("4:9223372036854775807")); },
       "crd2idx: leaf 0: 2 and 9223372036854775807: the result does not fit in 64 bits"},
      {[&] { L("4:E0")(2); }, "crd2idx: stride E0 must be a plain number"},
      {[&] { L("(4,2):(E0,E1)")(2, 1); }, "crd2idx: the index of a layout with basis strides is a tuple"},
      {[&] { crd2idx(T("(2,1)"), L("(4,2):(1,E1)")); }, "crd2idx: 2 is the sum of a number and of basis vectors"},
      {[&] { crd2idx(T("(2,1)"), L("(4,2):(E0,E0.1)")); }, "crd2idx: 2 is the sum of a number and of basis vectors"},
      {[&] { crd2idx(T("(1,2)"), Swizzle(1, 0, 1)); }, "crd2idx: a swizzle takes a number, not a tuple"},
      {[&] { idx2crd(3, L("(4,2):(1,3)")); },
       "idx2crd: leaf 1: stride 3 must be a multiple of 4, the extent of the smaller strides"},
      {[&] { idx2crd(3, L("(4,2):(1,-4)")); }, "idx2crd: leaf 1: stride -4 must be a positive number"},
      {[&] { idx2crd(3, L("(?,2):(1,?)"), Math<Unknown>{"idx2crd"}); },
       "idx2crd: leaf 1: stride ? must be a multiple of ?, the extent of the smaller strides"},
      {[&] { slice(T("(*,1,1)"), layout); }, "slice: a coordinate of 3 modes does not fit 2 modes"},
      {[&] { dice(T("((*,1,1),1)"), layout); }, "dice: a coordinate of 3 modes does not fit 2 modes"},
  });
}

TEST(LayoutErrors, Composition) {
  const Layout a = L("(6,9):(1,100)");
  const Math<Unknown> math{"composition"};
  check({
      {[&] { composition(a, L("(2,4):(1,4)")); },
       "composition: leaf 1: stride 4 and the left side's shape 6: neither divides the other"},
      {[&] { composition(a, L("4:2")); }, "composition: leaf 0: shape 4 must be a multiple of 3 = 6 / stride"},
      {[&] { composition(a, L("(4,2):(1,3)")); },
       "composition: leaf 1: stride 3: with the other leaves it reaches past the left side's shape 6"},
      {[&] { composition(a, L("2:-1")); }, "composition: leaf 0: stride -1 must not be negative"},
      {[&] { composition(a, L("2:E2")); }, "composition: leaf 0: stride E2 names a mode of 2"},
      {[&] { composition(a, L("(1,2):(0,E0.1)")); }, "composition: leaf 1: stride E0.1 names a mode of 1"},
      {[&] { composition(a, make_tile(2, 2, 2)); }, "composition: 3 modes do not fit a layout of 2"},
      {[&] { composition(L("(6,(5,9)):(1,(6,100))"), make_tile(3, L("(2,3):(1,4)"))); },
       "composition: leaf 2: stride 4 and the left side's shape 5: neither divides the other"},
      {[&] { composition(L("(?,4):(1,?)"), L("4:1"), math); },
       "composition: leaf 0: shape 4 must be a multiple of ? = ? / stride"},
      {[&] { composition(L("(6,4):(1,?)"), L("?{div=4}:1"), math); },
       "composition: leaf 0: shape ?{div=4} must be a multiple of 6 = 6 / stride"},
      {[&] { composition(L("(6,4):(1,?)"), L("2:?{div=4}"), math); },
       "composition: leaf 0: stride ?{div=4} and the left side's shape 6: neither divides the other"},
      {[&] { composition(L("4:4611686018427387904"), L("2:2")); },
       "composition: leaf 0: 2 and 4611686018427387904: the result does not fit in 64 bits"},
      {[&] { composition(L("4:-2"), L("2:?"), math); },
       "composition: leaf 0: stride ? times -2: a dynamic stride must be positive"},
      {[&] { coalesce(a, T("(1,1,1)")); }, "coalesce: 3 modes do not fit a layout of 2"},
  });
}

TEST(LayoutErrors, ComplementAndInverses) {
  check({
      {[&] { complement(L("(4,4):(1,2)"), 32); },
       "complement: leaf 1: stride 2 must be at least 4, the extent of the smaller strides"},
      {[&] { complement(L("(4,4):(1,1)"), 32); },
       "complement: leaf 1: stride 1 must be at least 4, the extent of the smaller strides"},
      {[&] { complement(L("(4,2):(1,-4)"), 32); }, "complement: leaf 1: stride -4 must be a positive number"},
      {[&] { complement(L("(4,2):(1,E0)"), 32); }, "complement: leaf 1: stride E0 must be a positive number"},
      {[&] { complement(L("(4,2):(1,?{div=2})"), 32); },
       "complement: leaf 1: stride ?{div=2} must be at least 4, the extent of the smaller strides"},
      {[&] { complement(L("(?,2):(1,?{div=2})"), 32); },
       "complement: leaf 1: stride ?{div=2} must be at least ?, the extent of the smaller strides"},
      {[&] { left_inverse(L("(4,4):(1,2)")); },
       "left_inverse: leaf 1: stride 2 must be a multiple of 4, the extent of the smaller strides"},
      {[&] { left_inverse(L("(6,2):(1,7)")); },
       "left_inverse: leaf 1: stride 7 must be a multiple of 6, the extent of the smaller strides"},
      {[&] { left_inverse(L("(4,2):(1,0)")); }, "left_inverse: leaf 1: stride 0 must be a positive number"},
  });
}

TEST(LayoutErrors, DividesAndProducts) {
  const Layout matrix = L("(8,(2,3)):(1,(8,100))");
  check({
      {[&] { logical_divide(matrix, L("(2,4):(1,1)")); },
       "logical_divide: leaf 1: stride 1 must be at least 2, the extent of the smaller strides"},
      {[&] { zipped_divide(matrix, make_tile(3, 3)); }, "zipped_divide: leaf 1: shape 3 must be a multiple of 2 = 2 / stride"},
      {[&] { tiled_divide(matrix, make_tile(2, 2, 2)); }, "tiled_divide: 3 modes do not fit a layout of 2"},
      {[&] { flat_divide(matrix, make_tile()); }, "flat_divide: the tile is empty"},
      {[&] { logical_divide(matrix, Layout()); }, "logical_divide: the tile is empty"},
      {[&] { logical_product(matrix, Layout()); }, "logical_product: the block or the layout of copies is empty"},
      {[&] { logical_product(L("2:2"), L("3:1")); }, "logical_product: leaf 0: shape 3 must be a multiple of 2 = 2 / stride"},
      {[&] { logical_product(L("(4,4):(1,2)"), L("2:1")); },
       "logical_product: leaf 1: stride 2 must be at least 4, the extent of the smaller strides"},
      {[&] { blocked_product(L("2:2"), L("(3,5):(1,3)")); },
       "blocked_product: leaf 0: shape 3 must be a multiple of 2 = 2 / stride"},
      {[&] { make_ordered_layout(T("(2,3)"), T("(0,1,2)")); }, "make_ordered_layout: an order of 3 modes does not fit 2 modes"},
      {[&] { make_ordered_layout(T("(2,3)"), T("(0,?)")); }, "make_ordered_layout: order ? must be a static number"},
      {[&] { make_layout_like(L("(2,3):(1,E0)")); }, "make_layout_like: leaf 1: stride E0 must be a plain number"},
      {[&] { tile_to_shape(composition(Swizzle(1, 3, 2), L("8:1")), 64); },
       "tile_to_shape: the block's extent 8 must be a multiple of the swizzle's period 64"},
  });
}

TEST(LayoutErrors, Recast) {
  check({
      {[&] { upcast(L("(4,2):(1,6)"), 4); }, "upcast: leaf 1: stride 6 and the factor 4: neither divides the other"},
      {[&] { upcast(L("(4,2):(1,?{div=2})"), 4); },
       "upcast: leaf 1: stride ?{div=2} and the factor 4: neither divides the other"},
      {[&] { upcast(L("(4,2):(1,2)"), 4); }, "upcast: leaf 1: stride 2 must be at least 4, the extent of the smaller strides"},
      {[&] { upcast(L("4:-1"), 2); }, "upcast: leaf 0: stride -1 and the factor 2: neither divides the other"},
      {[&] { upcast(L("4:E0"), 2); }, "upcast: leaf 0: stride E0 must be a plain number"},
      {[&] { upcast(L("4:1"), 0); }, "upcast: the factor 0 must be positive"},
      {[&] { downcast(L("(4,2):(2,8)"), 2); }, "downcast: no stride is 1, so no mode can count the 2 parts of an element"},
      {[&] { downcast(L("4:1"), -1); }, "downcast: the factor -1 must be positive"},
      {[&] { upcast(Swizzle(1, 1, 1), 4); }, "upcast: the lowest bit 1 is inside an element of 4"},
      {[&] { upcast(Swizzle(1, 1, 1), 6); }, "upcast: the factor 6 must be a power of two"},
      {[&] { downcast(Swizzle(1, 1, 1), 0); }, "downcast: the factor 0 must be a power of two"},
      {[&] { recast(L("4:2"), 8, 16); }, "recast: no stride is 1, so no mode can count the 2 parts of an element"},
      {[&] { recast(Swizzle(1, 1, 1), 64, 8); }, "recast: the lowest bit 1 is inside an element of 8"},
      {[&] { recast(L("4:1"), 0, 8); }, "recast: widths 0 and 8 must be positive"},
      {[&] { upcast(SwizzledLayout{Swizzle(1, 2, 1), 3, L("4:1")}, 4); }, "upcast: the offset 3 must be a multiple of 4"},
      {[&] { downcast(SwizzledLayout{Swizzle(1, 2, 1), tuple(3, 1), L("4:1")}, 4); }, "downcast: the offset must be a number"},
  });
}

TEST(LayoutErrors, Text) {
  const std::string deep(200, '(');
  check({
      {[&] { L("(4,2:(1,2)"); }, "parse: ')' expected at character 4 of \"(4,2:(1,2)\""},
      {[&] { L("(4,2)"); }, "parse: ':' expected at character 5 of \"(4,2)\""},
      {[&] { L("4:1 x"); }, "parse: the end expected at character 4 of \"4:1 x\""},
      {[&] { L("a:1"); }, "parse: a leaf expected at character 0 of \"a:1\""},
      {[&] { L("4:99999999999999999999"); }, "parse: a number of 64 bits expected at character 2 of \"4:99999999999999999999\""},
      {[&] { L("?{div=0}:1"); }, "parse: a positive divisor expected at character 7 of \"?{div=0}:1\""},
      {[&] { L("4:E"); }, "parse: a number expected at character 3 of \"4:E\""},
      {[&] { L("4:E16"); }, "parse: a mode below 16 expected at character 5 of \"4:E16\""},
      {[&] { L("4:E0.0.0.0.0"); }, "parse: 1 to 4 levels expected at character 12 of \"4:E0.0.0.0.0\""},
      {[&] { T("((),1)"); }, "parse: a mode that is not empty expected at character 3 of \"((),1)\""},
      {[&] { T("(1"); }, "parse: ')' expected at character 2 of \"(1\""},
      {[&] { T(""); }, "parse: a leaf expected at character 0 of \"\""},
      {[&] { parse<Swizzle>("S<3,4>"); }, "parse: ',' expected at character 5 of \"S<3,4>\""},
      {[&] { parse<Swizzle>("S<3,400,3>"); }, "parse: a number of bits expected at character 7 of \"S<3,400,3>\""},
      {[&] { parse<Tile>("[4:1"); }, "parse: ']' expected at character 4 of \"[4:1\""},
      {[&] { parse<SwizzledLayout>("S<3,4,3> o 0"); }, "parse: 'o' expected at character 12 of \"S<3,4,3> o 0\""},
      {[&] { L("(1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17):1"); }, "tuple: 17 leaves are more than 16"},
      {[&] { T(deep.c_str()); }, "parse: at most 100 levels expected at character 101 of \"" + deep + "\""},
      {[&] { parse<Tile>("[[[[1,2],(2,2):(1,2)]]]"); }, "tile: a tuple stands beside a nested layout"},
  });
}

// The same at compile time: the call is no constant expression.
template <auto call, auto = (call(), 0)> constexpr bool constant(int) { return true; }
template <auto call> constexpr bool constant(...) { return false; }

static_assert(constant<[] { return composition(Layout(tuple(6, 9), tuple(1, 100)), Layout(3, 2)); }>(0));
static_assert(!constant<[] { return composition(Layout(tuple(6, 9), tuple(1, 100)), Layout(4, 2)); }>(0));
static_assert(!constant<[] { return complement(Layout(tuple(4, 4), tuple(1, 2)), 32); }>(0));
static_assert(!constant<[] { return left_inverse(Layout(4, 0)); }>(0));
static_assert(!constant<[] { return Layout(tuple(4, 4), 1); }>(0));
static_assert(!constant<[] { return Layout(4, 1)(1, 2); }>(0));
static_assert(!constant<[] { return upcast(Layout(4, 3), 2); }>(0));
static_assert(!constant<[] { return Math<>{"sum"}.add(kMax, 1); }>(0));
static_assert(!constant<[] { return Swizzle(2, 0, 1); }>(0));

}  // namespace
}  // namespace jaxator::layout::testing
