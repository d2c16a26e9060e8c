#include "src/layout/draw.h"

#include <algorithm>
#include <unordered_map>

namespace jaxator::layout {
namespace {

constexpr Math<> kMath{"draw"};

/// Light colours that differ for numbers below 360 and are far apart for neighbours. Integers only: the same bytes everywhere.
uint32_t hue(int64_t number) {
  constexpr int kLow = 165, kHigh = 250, kSector = 60;
  const int degrees = static_cast<int>(number % 360 * 137 % 360), sector = degrees / kSector;
  const int step = (kHigh - kLow) * (degrees % kSector) / kSector, up = kLow + step, down = kHigh - step;
  const int red[] = {kHigh, down, kLow, kLow, up, kHigh}, green[] = {up, kHigh, kHigh, down, kLow, kLow},
            blue[] = {kLow, kLow, up, kHigh, kHigh, down};
  return static_cast<uint32_t>(red[sector] << 16 | green[sector] << 8 | blue[sector]);
}

/// From nearly white to blue, for numbers from 0 to `last`.
uint32_t shade(uint64_t number, uint64_t last) {
  for (; last >> 40 != 0; last >>= 1) number >>= 1;
  const int64_t part = static_cast<int64_t>(number), whole = std::max<int64_t>(1, static_cast<int64_t>(last));
  const auto between = [&](int64_t from, int64_t to) { return from + (to - from) * part / whole; };
  return static_cast<uint32_t>(between(0xf7, 0x6b) << 16 | between(0xfb, 0xae) << 8 | between(0xff, 0xd6));
}

/// Elements that are wider than a bank have the colour of the banks that they fill.
uint32_t colour_of_bank(int64_t index, const Colours& colours) {
  const Phases p = phases(colours.target, 4);
  const int element = colours.element, unit = std::max(element, p.bank_bytes), row = p.banks * p.bank_bytes;
  kMath.require(unit % element == 0 && row % unit == 0, "elements of {0} bytes are no part and no multiple of banks of {1} bytes",
                element, p.bank_bytes);
  const int64_t in_row = (index % row + row) % row;  // in whole rows of elements, also for negative indices
  return hue(in_row * element / unit % (row / unit));
}

uint64_t distance(int64_t from, int64_t to) { return static_cast<uint64_t>(to) - static_cast<uint64_t>(from); }

/// A layout of exactly two modes, the first one a single row where there is only one.
Layout as_matrix(const Layout& layout) {
  kMath.require(layout.is_static(), "every shape and stride must be a static number");
  kMath.require(layout.rank() > 0, "the layout is empty");
  const int rank = layout.rank();
  const Layout matrix = rank == 1 ? make_layout(Layout(Mode{1, 0}), layout.mode(0)) : rank == 2 ? layout : layout.group(1, rank);
  kMath.require(size(matrix).value <= kMaxCells, "{0} cells are more than {1}", size(matrix), kMaxCells);
  return matrix;
}

/// Sizes of the blocks that the first leaves of a mode make, without the whole mode.
std::vector<int64_t> blocks_of(const Layout& mode) {
  std::vector<int64_t> blocks;
  int64_t extent = 1;
  for (int k = 0; k < mode.count; k++) {
    if (extent > 1 && mode.leaves[k].shape.value > 1) blocks.push_back(extent);
    extent *= mode.leaves[k].shape.value;
  }
  return blocks;
}

Grid empty_grid(const std::string& title, const Layout& matrix) {
  const int64_t rows = size(matrix.mode(0)).value, columns = size(matrix.mode(1)).value;
  return {title,
          rows,
          columns,
          std::vector<Cell>(static_cast<size_t>(rows * columns)),
          blocks_of(matrix.mode(0)),
          blocks_of(matrix.mode(1))};
}

/// `index` of each cell: a number, or a tuple where strides are basis vectors.
template <class Index> Grid index_grid(const std::string& title, const Layout& matrix, const Colours& colours,
                                       const Index& index) {
  Grid grid = empty_grid(title, matrix);
  std::vector<IntTuple> indices;
  int64_t smallest = INT64_MAX, largest = INT64_MIN;
  for (int64_t row = 0; row < grid.rows; row++)
    for (int64_t column = 0; column < grid.columns; column++) {
      indices.push_back(index(tuple(row, column)));
      if (!indices.back().is_leaf()) continue;
      smallest = std::min(smallest, indices.back().leaves[0].value);
      largest = std::max(largest, indices.back().leaves[0].value);
    }
  for (size_t i = 0; i < indices.size(); i++) {
    grid.cells[i].text = to_string(indices[i]);
    if (!indices[i].is_leaf()) continue;
    const int64_t number = indices[i].leaves[0].value;
    grid.cells[i].colour =
        colours.element > 0 ? colour_of_bank(number, colours) : shade(distance(smallest, number), distance(smallest, largest));
  }
  return grid;
}

template <class AnyLayout> Grid holders(const AnyLayout& layout, const Layout& outer, const Layout& tile) {
  kMath.require(outer.is_static() && outer.rank() == 2, "a thread-value layout has two modes of static numbers, not {0} modes",
                outer.rank());
  const int64_t threads = size(outer.mode(0)).value, values = size(outer.mode(1)).value;
  kMath.require(size(outer).value <= 16 * kMaxCells, "{0} values of {1} threads are more than {2}", values, threads,
                16 * kMaxCells);
  const Layout matrix = as_matrix(tile);
  Grid grid = empty_grid(to_string(layout), matrix);
  std::unordered_map<int64_t, std::vector<Cell*>> cells_of;
  for (int64_t row = 0; row < grid.rows; row++)
    for (int64_t column = 0; column < grid.columns; column++)
      cells_of[matrix(row, column)].push_back(&grid.cells[static_cast<size_t>(row * grid.columns + column)]);
  for (int64_t thread = 0; thread < threads; thread++)
    for (int64_t value = 0; value < values; value++) {
      const int64_t index = layout(thread, value);
      const auto found = cells_of.find(index);
      kMath.require(found != cells_of.end(), "index {0} of thread {1} and value {2} is not in the tile", index, thread, value);
      for (Cell* cell : found->second) {
        if (cell->text.empty())
          *cell = {"T" + std::to_string(thread), "V" + std::to_string(value), hue(thread)};
        else if (cell->second.back() != '+')
          cell->second += '+';
      }
    }
  return grid;
}

// ---- SVG
// -----------------------------------------------------------------------------------------------------------------------

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) result += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  return result;
}

std::string hex(uint32_t colour) {
  std::string text = "#000000";
  for (int digit = 6; digit > 0; digit--, colour >>= 4) text[static_cast<size_t>(digit)] = "0123456789abcdef"[colour & 15];
  return text;
}

std::string text_at(int64_t x, int64_t y, const std::string& text) {
  return "<text x=\"" + std::to_string(x) + "\" y=\"" + std::to_string(y) + "\">" + escaped(text) + "</text>";
}

constexpr int kLeft = 34, kTop = 46, kMargin = 10, kCharacter = 7;

struct Sizes {
  int64_t cell_width, cell_height, width, height;
  int64_t x(int64_t column) const { return kLeft + column * cell_width; }
  int64_t y(int64_t row) const { return kTop + row * cell_height; }
};

Sizes sizes_of(const Grid& grid) {
  size_t longest = 2;
  bool two_lines = false;
  for (const Cell& cell : grid.cells) {
    longest = std::max({longest, cell.text.size(), cell.second.size()});
    two_lines |= !cell.second.empty();
  }
  Sizes s{static_cast<int64_t>(longest) * kCharacter + 12, two_lines ? 34 : 26, 0, 0};
  s.width = std::max(s.x(grid.columns), kLeft + static_cast<int64_t>(grid.title.size()) * 8) + kMargin;
  s.height = s.y(grid.rows) + kMargin;
  return s;
}

/// The frame and the ends of blocks: the larger the block, the heavier its line.
std::string lines(const Grid& grid, const Sizes& s) {
  std::string text = "<rect x=\"" + std::to_string(s.x(0)) + "\" y=\"" + std::to_string(s.y(0)) + "\" width=\"" +
                     std::to_string(grid.columns * s.cell_width) + "\" height=\"" + std::to_string(grid.rows * s.cell_height) +
                     "\"/>";
  for (const bool down : {true, false}) {
    const auto& blocks = down ? grid.column_blocks : grid.row_blocks;
    const int64_t count = down ? grid.columns : grid.rows;
    for (size_t level = 0; level < blocks.size(); level++) {
      text += "<path stroke-width=\"" + std::to_string(level + 1) + ".5\" d=\"";
      for (int64_t at = blocks[level]; at < count; at += blocks[level])
        text += down ? "M" + std::to_string(s.x(at)) + " " + std::to_string(s.y(0)) + "V" + std::to_string(s.y(grid.rows))
                     : "M" + std::to_string(s.x(0)) + " " + std::to_string(s.y(at)) + "H" + std::to_string(s.x(grid.columns));
      text += "\"/>";
    }
  }
  return text;
}

}  // namespace

Grid grid_of(const Layout& layout, const Colours& colours) {
  const Layout matrix = as_matrix(layout);
  return index_grid(to_string(layout), matrix, colours, [&](const IntTuple& at) { return crd2idx(at, matrix); });
}

Grid grid_of(const SwizzledLayout& layout, const Colours& colours) {
  const SwizzledLayout matrix = layout.with(as_matrix(layout.outer));
  return index_grid(to_string(layout), matrix.outer, colours, [&](const IntTuple& at) { return crd2idx(at, matrix); });
}

Grid thread_value_grid(const Layout& layout, const Layout& tile) { return holders(layout, layout, tile); }
Grid thread_value_grid(const SwizzledLayout& layout, const Layout& tile) { return holders(layout, layout.outer, tile); }

std::string to_svg(const Grid& grid) {
  const Sizes s = sizes_of(grid);
  const std::string width = std::to_string(s.width), height = std::to_string(s.height), title = escaped(grid.title);
  std::string text = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + width + "\" height=\"" + height +
                     "\" viewBox=\"0 0 " + width + " " + height +
                     "\" font-family=\"monospace\" font-size=\"12\" text-anchor=\"middle\">\n";
  text += "<title>" + title + "</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
  text += "<text x=\"" + std::to_string(kLeft) + "\" y=\"20\" font-size=\"13\" text-anchor=\"start\">" + title + "</text>\n";
  text += "<g stroke=\"#bbb\">\n";
  for (int64_t row = 0; row < grid.rows; row++)
    for (int64_t column = 0; column < grid.columns; column++)
      text += "<rect x=\"" + std::to_string(s.x(column)) + "\" y=\"" + std::to_string(s.y(row)) + "\" width=\"" +
              std::to_string(s.cell_width) + "\" height=\"" + std::to_string(s.cell_height) + "\" fill=\"" +
              hex(grid.at(row, column).colour) + "\"/>" + (column + 1 == grid.columns ? "\n" : "");
  text += "</g>\n<g fill=\"#222\">\n";
  for (int64_t row = 0; row < grid.rows; row++)
    for (int64_t column = 0; column < grid.columns; column++) {
      const Cell& cell = grid.at(row, column);
      const int64_t x = s.x(column) + s.cell_width / 2, y = s.y(row);
      if (cell.second.empty())
        text += text_at(x, y + 17, cell.text);
      else
        text += text_at(x, y + 14, cell.text) + text_at(x, y + 28, cell.second);
      if (column + 1 == grid.columns) text += "\n";
    }
  text += "</g>\n<g fill=\"#777\" font-size=\"10\">\n";
  for (int64_t column = 0; column < grid.columns; column++)
    text += text_at(s.x(column) + s.cell_width / 2, kTop - 6, std::to_string(column));
  for (int64_t row = 0; row < grid.rows; row++)
    text += text_at(kLeft - 14, s.y(row) + s.cell_height / 2 + 4, std::to_string(row));
  return text + "\n</g>\n<g fill=\"none\" stroke=\"#222\">" + lines(grid, s) + "</g>\n</svg>\n";
}

std::string to_text(const Grid& grid) {
  const auto padded = [](const std::string& text, size_t width) {
    return std::string(width - std::min(width, text.size()), ' ') + text;
  };
  size_t width = std::to_string(grid.columns - 1).size();
  for (const Cell& cell : grid.cells) width = std::max(width, cell.text.size() + cell.second.size());
  const size_t label = std::to_string(grid.rows - 1).size();
  std::string text = grid.title + "\n" + std::string(label + 2, ' ');
  for (int64_t column = 0; column < grid.columns; column++) text += " " + padded(std::to_string(column), width);
  text += "\n" + std::string(label + 1, ' ') + "+" + std::string(static_cast<size_t>(grid.columns) * (width + 1), '-') + "\n";
  for (int64_t row = 0; row < grid.rows; row++) {
    text += padded(std::to_string(row), label) + " |";
    for (int64_t column = 0; column < grid.columns; column++) {
      const Cell& cell = grid.at(row, column);
      text += " " + padded(cell.text.empty() ? "." : cell.text + cell.second, width);
    }
    text += "\n";
  }
  return text;
}

}  // namespace jaxator::layout
