// Pictures: what each cell shows and how it is coloured, in both forms.
#include "src/layout/draw.h"

#include <gtest/gtest.h>

#include <set>
#include <stdexcept>

namespace jaxator::layout {
namespace {

Layout L(const char* text) { return parse<Layout>(text); }
SwizzledLayout S(const char* text) { return parse<SwizzledLayout>(text); }

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) found++;
  return found;
}

TEST(LayoutDraw, SmallGoldenSvg) {
  EXPECT_EQ(
      to_svg(grid_of(L("((2,2),2):((4,1),2)"))),
      R"(<svg xmlns="http://www.w3.org/2000/svg" width="196" height="160" viewBox="0 0 196 160" font-family="monospace" font-size="12" text-anchor="middle">
<title>((2,2),2):((4,1),2)</title>
<rect width="100%" height="100%" fill="#fff"/>
<text x="34" y="20" font-size="13" text-anchor="start">((2,2),2):((4,1),2)</text>
<g stroke="#bbb">
<rect x="34" y="46" width="26" height="26" fill="#f7fbff"/><rect x="60" y="46" width="26" height="26" fill="#cfe5f4"/>
<rect x="34" y="72" width="26" height="26" fill="#a7cfe8"/><rect x="60" y="72" width="26" height="26" fill="#7fb9dc"/>
<rect x="34" y="98" width="26" height="26" fill="#e3f0fa"/><rect x="60" y="98" width="26" height="26" fill="#bbdaee"/>
<rect x="34" y="124" width="26" height="26" fill="#93c4e2"/><rect x="60" y="124" width="26" height="26" fill="#6baed6"/>
</g>
<g fill="#222">
<text x="47" y="63">0</text><text x="73" y="63">2</text>
<text x="47" y="89">4</text><text x="73" y="89">6</text>
<text x="47" y="115">1</text><text x="73" y="115">3</text>
<text x="47" y="141">5</text><text x="73" y="141">7</text>
</g>
<g fill="#777" font-size="10">
<text x="47" y="40">0</text><text x="73" y="40">1</text><text x="20" y="63">0</text><text x="20" y="89">1</text><text x="20" y="115">2</text><text x="20" y="141">3</text>
</g>
<g fill="none" stroke="#222"><rect x="34" y="46" width="52" height="104"/><path stroke-width="1.5" d="M34 98H86"/></g>
</svg>
)");
}

TEST(LayoutDraw, SmallGoldenText) {
  EXPECT_EQ(to_text(grid_of(L("((2,2),3):((3,12),1)"))), R"(((2,2),3):((3,12),1)
     0  1  2
  +---------
0 |  0  1  2
1 |  3  4  5
2 | 12 13 14
3 | 15 16 17
)");
  EXPECT_EQ(to_text(grid_of(S("S<1,0,1> o 0 o (2,4):(4,1)"))), R"(S<1,0,1> o 0 o (2,4):(4,1)
    0 1 2 3
  +--------
0 | 0 1 3 2
1 | 4 5 7 6
)");
}

TEST(LayoutDraw, EveryCellShowsItsIndex) {
  for (const char* text :
       {"7:2", "(3,5):(5,1)", "((4,2),8):((2,1),8)", "(2,3,4):(12,4,1)", "((2,2),(2,(3,1))):((1,24),(2,(4,9)))"}) {
    const Layout layout = L(text);
    const Grid grid = grid_of(layout);
    const int64_t rows = layout.rank() == 1 ? 1 : size(layout.mode(0)).value;
    EXPECT_EQ(grid.rows, rows) << text;
    ASSERT_EQ(grid.rows * grid.columns, size(layout).value) << text;
    ASSERT_EQ(grid.cells.size(), static_cast<size_t>(size(layout).value)) << text;
    for (int64_t i = 0; i < size(layout).value; i++)
      EXPECT_EQ(grid.at(i % rows, i / rows).text, std::to_string(layout(i))) << text << " at " << i;
    const std::string svg = to_svg(grid);
    EXPECT_EQ(count(svg, "<rect "), size(layout).value + 2) << text;  // cells, background and frame
    EXPECT_EQ(count(svg, "<text "), size(layout).value + grid.rows + grid.columns + 1) << text;
    EXPECT_EQ(count(svg, "<g"), count(svg, "</g>")) << text;
  }
  const SwizzledLayout swizzled = S("S<2,0,3> o 5 o (8,8):(8,1)");
  const Grid grid = grid_of(swizzled);
  for (int64_t i = 0; i < 64; i++) EXPECT_EQ(grid.at(i % 8, i / 8).text, std::to_string(swizzled(i)));
  EXPECT_EQ(count(to_svg(grid), "S&lt;2,0,3&gt; o 5 o"), 2);  // the title, twice
}

TEST(LayoutDraw, BasisStridesShowCoordinates) {
  const Grid grid = grid_of(L("(2,3):(E0,2E1)"));
  EXPECT_EQ(grid.at(1, 2).text, "(1,4)");
  EXPECT_EQ(grid.at(0, 0).text, "0");
}

TEST(LayoutDraw, BlocksAreThoseOfTheModes) {
  const Grid grid = grid_of(L("((2,1,3),(4,2,2)):((1,6,2),(6,24,48))"));
  EXPECT_EQ(grid.row_blocks, (std::vector<int64_t>{2}));
  EXPECT_EQ(grid.column_blocks, (std::vector<int64_t>{4, 8}));
  const std::string svg = to_svg(grid);
  EXPECT_EQ(count(svg, "<path stroke-width=\"1.5\""), 2);
  EXPECT_EQ(count(svg, "<path stroke-width=\"2.5\""), 1);
  EXPECT_TRUE(grid_of(L("(6,4):(4,1)")).row_blocks.empty());
}

/// Eight rows of eight 16-byte chunks: in a column all are on the same banks; swizzled, all are on different ones.
TEST(LayoutDraw, ColoursTellBanksApart) {
  const Colours banks{16, Target::sm_90};
  const auto colours_of_column = [](const Grid& grid) {
    std::set<uint32_t> colours;
    for (int64_t row = 0; row < 8; row++) colours.insert(grid.at(row, 3).colour);
    return colours.size();
  };
  EXPECT_EQ(colours_of_column(grid_of(L("(8,8):(8,1)"), banks)), 1u);
  EXPECT_EQ(colours_of_column(grid_of(S("S<3,0,3> o 0 o (8,8):(8,1)"), banks)), 8u);
  std::set<uint32_t> words, pairs;  // 32 banks of words, each of two 16-bit elements
  for (const Cell& cell : grid_of(L("(1,64):(0,1)"), {2, Target::sm_90}).cells) words.insert(cell.colour);
  for (const Cell& cell : grid_of(L("(1,128):(0,1)"), {2, Target::gfx950}).cells) pairs.insert(cell.colour);
  EXPECT_EQ(words.size(), 32u);
  EXPECT_EQ(pairs.size(), 64u);
}

/// Negative and enormous indices have colours too.
TEST(LayoutDraw, ExtremeIndices) {
  for (const char* text : {"(2,2):(-9,-7)", "(2,2):(4611686018427387904,-4611686018427387904)", "2:9223372036854775807"})
    for (const int element : {0, 4, 16}) {
      const Grid grid = grid_of(L(text), {element, Target::gfx950});
      for (const Cell& cell : grid.cells) EXPECT_LE(cell.colour, 0xffffffu) << text << " " << element;
    }
  const Colours banks{4, Target::sm_90};
  EXPECT_EQ(grid_of(L("(1,2):(0,-1)"), banks).at(0, 1).colour, grid_of(L("(1,32):(0,1)"), banks).at(0, 31).colour);
}

TEST(LayoutDraw, ThreadsAndValues) {
  // The accumulator of mma.m16n8: two rows of four threads' pairs for each eight rows.
  const Grid grid = thread_value_grid(L("((4,8),(2,2)):((32,1),(16,8))"), L("(16,8):(1,16)"));
  EXPECT_EQ(grid.rows, 16);
  EXPECT_EQ(grid.columns, 8);
  for (int row = 0; row < 16; row++)
    for (int column = 0; column < 8; column++) {
      const Cell& cell = grid.at(row, column);
      EXPECT_EQ(cell.text, "T" + std::to_string(row % 8 * 4 + column / 2));
      EXPECT_EQ(cell.second, "V" + std::to_string(row / 8 * 2 + column % 2));
    }
  std::set<uint32_t> colours;
  for (const Cell& cell : grid.cells) colours.insert(cell.colour);
  EXPECT_EQ(colours.size(), 32u);
  EXPECT_EQ(count(to_svg(grid), ">T31</text>"), 4);
}

TEST(LayoutDraw, SharedAndEmptyCells) {
  EXPECT_EQ(to_text(thread_value_grid(L("((2,2),2):((0,2),1)"), L("(2,4):(4,1)"))), R"(((2,2),2):((0,2),1)
        0     1     2     3
  +------------------------
0 | T0V0+ T0V1+ T2V0+ T2V1+
1 |     .     .     .     .
)");
  const Grid swizzled = thread_value_grid(S("S<1,0,1> o 0 o (2,2):(2,1)"), L("(2,2):(2,1)"));
  EXPECT_EQ(swizzled.at(1, 0).text + swizzled.at(1, 0).second, "T1V1");
}

TEST(LayoutDraw, WhatCannotBeDrawnIsRefused) {
  const auto refusal = [](auto&& draw) -> std::string {
    try {
      draw();
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal([] { grid_of(L("(64,65):(1,64)")); }), "draw: 4160 cells are more than 4096");
  EXPECT_EQ(refusal([] { grid_of(L("(?,2):(1,4)")); }), "draw: every shape and stride must be a static number");
  EXPECT_EQ(refusal([] { grid_of(Layout()); }), "draw: the layout is empty");
  EXPECT_EQ(refusal([] { grid_of(L("(2,2):(1,2)"), {3, Target::sm_90}); }),
            "draw: elements of 3 bytes are no part and no multiple of banks of 4 bytes");
  EXPECT_EQ(refusal([] { thread_value_grid(L("(4,2,2):(1,4,8)"), L("(4,4):(1,4)")); }),
            "draw: a thread-value layout has two modes of static numbers, not 3 modes");
  EXPECT_EQ(refusal([] { thread_value_grid(L("(4,2):(1,4)"), L("(2,2):(1,2)")); }),
            "draw: index 4 of thread 0 and value 1 is not in the tile");
  EXPECT_EQ(refusal([] { thread_value_grid(L("(4096,32):(0,0)"), L("(2,2):(1,2)")); }),
            "draw: 32 values of 4096 threads are more than 65536");
}

}  // namespace
}  // namespace jaxator::layout
