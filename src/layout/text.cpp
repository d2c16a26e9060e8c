#include "src/layout/text.h"

#include <charconv>
#include <stdexcept>

namespace jaxator::layout {
namespace {

/// A tuple with its leaves written by write(leaf).
template <class Tuple, class Write> std::string nested_text(const Tuple& tuple, Write&& write) {
  if (tuple.count == 0) return "()";
  std::string text;
  for (int k = 0; k < tuple.count; k++) {
    if (k > 0) text += ',';
    text.append(tuple.begins[k], '(').append(write(tuple.leaves[k])).append(tuple.ends[k], ')');
  }
  return text;
}

}  // namespace

void precondition_violated(const Violation& violation) {
  std::string text = violation.operation;
  text += ": ";
  if (violation.leaf >= 0) text += "leaf " + std::to_string(violation.leaf) + ": ";
  for (const char* c = violation.rule; *c != 0; c++) {
    if (*c == '{') {
      text += to_string(violation.values[c[1] - '0']);
      c += 2;
    } else {
      text += *c;
    }
  }
  throw std::invalid_argument(text);
}

std::string to_string(const Int& leaf) {
  if (leaf.is_keep()) return "*";
  std::string text;
  if (leaf.is_dynamic()) {
    text = "?";
    if (leaf.value != 0) text += std::to_string(leaf.value);
    if (leaf.divisor != 1) text.append("{div=").append(std::to_string(leaf.divisor)).append("}");
  } else if (leaf.basis == 0 || leaf.value != 1) {
    text = std::to_string(leaf.value);
  }
  for (int level = 0; level < basis_levels(leaf.basis); level++)
    text.append(level == 0 ? "E" : ".").append(std::to_string(basis_mode(leaf.basis, level)));
  return text;
}

std::string to_string(const IntTuple& tuple) {
  return nested_text(tuple, [](const Int& leaf) { return to_string(leaf); });
}

std::string to_string(const Layout& layout) { return to_string(layout.shape()) + ":" + to_string(layout.stride()); }

std::string to_string(const Swizzle& swizzle) {
  return "S<" + std::to_string(swizzle.bits) + "," + std::to_string(swizzle.base) + "," + std::to_string(swizzle.shift) + ">";
}

std::string to_string(const Tile& tile) {
  if (tile.is_keep()) return "*";
  if (tile.is_layout()) return to_string(tile.modes);
  std::string text = "[";
  for (int i = 0; i < tile.rank(); i++) text.append(i > 0 ? "," : "").append(to_string(tile.mode(i)));
  return text + "]";
}

void Parser::fail(const std::string& expected) const {
  throw std::invalid_argument("parse: " + expected + " expected at character " + std::to_string(at_) + " of \"" +
                              std::string(text_) + "\"");
}

bool Parser::accept(std::string_view token) {
  while (at_ < text_.size() && text_[at_] == ' ') at_++;
  if (text_.substr(at_, token.size()) != token) return false;
  at_ += token.size();
  return true;
}

void Parser::expect(std::string_view token) {
  if (!accept(token)) fail("'" + std::string(token) + "'");
}

void Parser::enter() {
  if (++depth_ > kMaxDepth) fail("at most " + std::to_string(kMaxDepth) + " levels");
}

void Parser::end() {
  accept("");
  if (at_ != text_.size()) fail("the end");
}

bool Parser::at_number() {
  accept("");
  return at_ < text_.size() && (text_[at_] == '-' || (text_[at_] >= '0' && text_[at_] <= '9'));
}

int64_t Parser::number() {
  accept("");
  int64_t value = 0;
  const auto [rest, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
  if (error != std::errc()) fail(error == std::errc::result_out_of_range ? "a number of 64 bits" : "a number");
  at_ = static_cast<size_t>(rest - text_.data());
  return value;
}

void Parser::read(Int& leaf) {
  if (accept("*")) return void(leaf = keep);
  leaf = 1;
  bool has_number = true;
  if (accept("?")) {
    leaf = symbol(1, at_number() ? number() : 0);
    if (accept("{")) {
      expect("div=");
      leaf.divisor = number();
      if (leaf.divisor < 1) fail("a positive divisor");
      expect("}");
    }
  } else {
    has_number = at_number();
    if (has_number) leaf = number();
  }
  if (!accept("E")) {
    if (!has_number) fail("a leaf");
    return;
  }
  int level = 0;
  do {
    const int64_t mode = number();
    if (mode < 0 || mode >= kMaxLeaves) fail("a mode below " + std::to_string(kMaxLeaves));
    if (level >= kMaxBasisLevels) fail("1 to " + std::to_string(kMaxBasisLevels) + " levels");
    leaf.basis |= static_cast<uint32_t>(mode + 1) << 8 * level++;
  } while (accept("."));
}

void Parser::read(IntTuple& tuple) {
  tuple = {};
  if (!accept("(")) {
    Int leaf;
    read(leaf);
    tuple = leaf;
    return;
  }
  enter();
  while (!accept(")")) {
    IntTuple mode;
    read(mode);
    if (mode.count == 0) fail("a mode that is not empty");
    tuple.push(mode);
    if (!accept(",")) {
      expect(")");
      break;
    }
  }
  depth_--;
}

void Parser::read(Layout& layout) {
  IntTuple shape, stride;
  read(shape);
  expect(":");
  read(stride);
  layout = Layout(shape, stride);
}

void Parser::read(Swizzle& swizzle) {
  int64_t part[3];
  for (int i = 0; i < 3; i++) {
    expect(i == 0 ? "S<" : ",");
    part[i] = number();
    if (part[i] < -64 || part[i] > 64) fail("a number of bits");
  }
  expect(">");
  swizzle = Swizzle(static_cast<int>(part[0]), static_cast<int>(part[1]), static_cast<int>(part[2]));
}

void Parser::read(Tile& tile) {
  tile = {};
  if (accept("*")) return void(tile = keep);
  if (!accept("[")) {
    IntTuple shape, stride = 1;
    read(shape);
    if (!shape.is_leaf()) expect(":");
    if (!shape.is_leaf() || accept(":")) read(stride);
    tile = Layout(shape, stride);
    return;
  }
  enter();
  tile.levels = 1;
  while (!accept("]")) {
    Tile mode;
    read(mode);
    tile.push(mode);
    if (!accept(",")) {
      expect("]");
      break;
    }
  }
  depth_--;
}

}  // namespace jaxator::layout
