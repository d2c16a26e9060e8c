/// @file
/// Pictures of layouts: a grid of cells, as SVG and as text for terminals. Host only.
#pragma once

#include <string>
#include <vector>

#include "src/layout/banks.h"
#include "src/layout/text.h"

namespace jaxator::layout {

/// More cells than anyone can read.
inline constexpr int64_t kMaxCells = 4096;

struct Cell {
  std::string text, second;  // the second line, of thread-value pictures
  uint32_t colour = 0xffffff;
};

struct Grid {
  std::string title;
  int64_t rows = 0, columns = 0;
  std::vector<Cell> cells;                         // row by row
  std::vector<int64_t> row_blocks, column_blocks;  // sizes after which a heavier line is drawn, each a multiple of the one before

  const Cell& at(int64_t row, int64_t column) const { return cells[static_cast<size_t>(row * columns + column)]; }
};

/// What colours mean.
struct Colours {
  int element = 0;  // 0: from the smallest index, light, to the largest; else bytes of an element, and a colour for each bank
  Target target = Target::sm_90;
};

/// Each cell shows its index. Mode 0 goes down, mode 1 to the right; modes past it are taken into it, and a layout of one mode is
/// a row. A line ends each block that the first leaves of a mode make.
Grid grid_of(const Layout& layout, const Colours& colours = {});
Grid grid_of(const SwizzledLayout& layout, const Colours& colours = {});

/// Each cell of the tile shows which thread holds its index as which value, with a colour for each thread. Cells that several
/// hold have a plus sign after the first of them; cells that none holds are empty.
Grid thread_value_grid(const Layout& layout, const Layout& tile);
Grid thread_value_grid(const SwizzledLayout& layout, const Layout& tile);

std::string to_svg(const Grid& grid);
std::string to_text(const Grid& grid);

}  // namespace jaxator::layout
