#include "tests/cpp/layout_testing.h"

namespace jaxator::layout::testing {
namespace {

template <class Value> void expect_same(const char* text) {
  EXPECT_EQ(to_string(parse<Value>(text)), text);
  EXPECT_EQ(parse<Value>(to_string(parse<Value>(text))), parse<Value>(text));
}

TEST(LayoutText, IsReadAsItIsWritten) {
  for (const char* text : {"4:1", "(4):(1)", "((2,2),3):((24,2),8)", "():()", "(((1))):(((0)))", "(4,2):(2E0,-3E1)",
                           "(?12{div=4},?):(E0,?{div=2}E1.0)", "?{div=4}:?7", "8:-1", "9223372036854775807:1"})
    expect_same<Layout>(text);
  for (const char* text : {"*", "5", "(*,3,(1,*))", "()", "-1", "E15.0.3.2", "?", "(?5E1)"}) expect_same<IntTuple>(text);
  for (const char* text : {"S<3,4,3>", "S<0,0,0>", "S<2,0,-3>"}) expect_same<Swizzle>(text);
  for (const char* text : {"*", "[4:1,*]", "[(4,2):(1,8),*,8:1]", "[8:1,[*,2:1]]", "[]", "(4,2):(1,8)", "4:1", "[[[4:1]]]"})
    expect_same<Tile>(text);
  expect_same<SwizzledLayout>("S<3,4,3> o 0 o (8,64):(64,1)");
  expect_same<Composed<Layout>>("(4,4):(1,100) o ?{div=4} o 4:1");
  expect_same<Composed<SwizzledLayout>>("{S<3,4,3> o 0 o (8,64):(64,1)} o (0,1) o 8:E0");
}

TEST(LayoutText, BlanksAndLastCommas) {
  EXPECT_EQ(L(" ( 4 , (2,) , ) : (1,( 4 ,),) "), L("(4,(2)):(1,(4))"));
  EXPECT_EQ(parse<SwizzledLayout>("S< 1 , 2,3 >o 0 o 4:1"), parse<SwizzledLayout>("S<1,2,3> o 0 o 4:1"));
  EXPECT_EQ(parse<Tile>("[4, [2:1,], *]"), make_tile(4, make_tile(2), keep));
}

TEST(LayoutText, EveryLayout) {
  for (const IntTuple& shape : shapes_up_to(12))
    for_strides(shape, {0, 1, -5}, [](const Layout& layout) { ASSERT_EQ(parse<Layout>(to_string(layout)), layout); });
}

/// Whatever the text is, the answer is a layout that reads back as itself, or std::invalid_argument.
TEST(LayoutText, AnyText) {
  std::mt19937_64 random(1);
  const std::string letters = "()[]{}:,*?0123456789-ES<>o .=div";
  for (int round = 0; round < 50000; round++) {
    std::string text = round % 2 == 0 ? "(4,(2,?{div=2})):(1,(E0.1,8))" : "S<3,4,3> o 0 o (8,64):(64,1)";
    for (uint64_t edits = 1 + random() % 4; edits > 0; edits--) {
      const size_t at = random() % text.size();
      if (random() % 3 == 0)
        text.erase(at, 1 + random() % 3);
      else if (random() % 2 == 0)
        text[at] = letters[random() % letters.size()];
      else
        text.insert(at, 1, letters[random() % letters.size()]);
      if (text.empty()) text = "(";
    }
    Layout layout;
    SwizzledLayout swizzled;
    Tile tile;
    if (!refused([&] { layout = parse<Layout>(text); })) {
      ASSERT_EQ(parse<Layout>(to_string(layout)), layout) << text;
    }
    if (!refused([&] { swizzled = parse<SwizzledLayout>(text); })) {
      ASSERT_EQ(parse<SwizzledLayout>(to_string(swizzled)), swizzled) << text;
    }
    if (!refused([&] { tile = parse<Tile>("[" + text + "]"); })) {
      ASSERT_EQ(parse<Tile>(to_string(tile)), tile) << text;
    }
  }
}

}  // namespace
}  // namespace jaxator::layout::testing
