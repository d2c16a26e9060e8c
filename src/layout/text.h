/// @file
/// Layouts as text and back. Host only.
///   4  ?  ?12  ?{div=4}  ?12{div=4}   leaves: static; dynamic, with the number or handle that it holds and its divisor if known
///   *  E0  2E0.1                      keep; the basis vector of mode 0; twice that of mode 1 of mode 0
///   ((2,2),3):((24,2),8)              layout: shape and stride. () is the empty tuple, (4) has one mode
///   S<3,4,3>                          swizzle: bits, base, shift
///   S<3,4,3> o 0 o (8,64):(64,1)      composed layout: inner o offset o outer; an inner one is in braces
///   [(4,2):(1,8),*,[8:1,2:1]]         tile; 8 is read as 8:1
#pragma once

#include <string>
#include <string_view>

#include "src/layout/swizzle.h"

namespace jaxator::layout {

std::string to_string(const Int& leaf);
std::string to_string(const IntTuple& tuple);
std::string to_string(const Layout& layout);
std::string to_string(const Swizzle& swizzle);
std::string to_string(const Tile& tile);

template <class Inner> std::string to_string(const Composed<Inner>& layout) {
  constexpr bool nested = requires { layout.inner.outer; };
  return (nested ? "{" + to_string(layout.inner) + "}" : to_string(layout.inner)) + " o " + to_string(layout.offset) + " o " +
         to_string(layout.outer);
}

/// Reads what to_string writes; blanks between the parts and a comma after the last mode are accepted. What breaks a rule or is
/// not of this form throws std::invalid_argument.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  void read(Int& leaf);
  void read(IntTuple& tuple);
  void read(Layout& layout);
  void read(Swizzle& swizzle);
  void read(Tile& tile);
  template <class Inner> void read(Composed<Inner>& layout) {
    constexpr bool nested = requires { layout.inner.outer; };
    if (nested) expect("{");
    read(layout.inner);
    if (nested) expect("}");
    expect("o");
    read(layout.offset);
    expect("o");
    read(layout.outer);
  }
  /// Nothing may follow.
  void end();

 private:
  bool accept(std::string_view token);
  void expect(std::string_view token);
  void enter();
  int64_t number();
  bool at_number();
  [[noreturn]] void fail(const std::string& expected) const;

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

template <class T> T parse(std::string_view text) {
  T result;
  Parser parser(text);
  parser.read(result);
  parser.end();
  return result;
}

}  // namespace jaxator::layout
