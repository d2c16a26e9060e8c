/// @file
/// What the C functions for Python share.
#pragma once

#include <cstdio>
#include <string>

#define JAXATOR_C_API extern "C" __attribute__((visibility("default")))

namespace jaxator::ffi {

/// Copies text (cut to fit) and returns its whole length, as snprintf does.
inline int copy_text(const std::string& text, char* out, int capacity) {
  return std::snprintf(out, capacity, "%s", text.c_str());
}

inline std::string json_text(const std::string& text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (static_cast<unsigned char>(c) >= 32) result += c;
  }
  return result + "\"";
}

}  // namespace jaxator::ffi
