/// @file
/// The widths of loads from and stores to global, flat, scratch and buffer memory.
#pragma once

#include "emulator/src/decode/instruction.h"

namespace jaxator::emulator {

struct Width {
  const char* name;
  Detail detail;
};

inline constexpr Width kLoadWidths[] = {
    {"ubyte", {.bytes = 1}},
    {"sbyte", {.bytes = 1, .is_signed = true}},
    {"ushort", {.bytes = 2}},
    {"sshort", {.bytes = 2, .is_signed = true}},
    {"ubyte_d16", {.bytes = 1, .half = true}},
    {"ubyte_d16_hi", {.bytes = 1, .high = true, .half = true}},
    {"sbyte_d16", {.bytes = 1, .is_signed = true, .half = true}},
    {"sbyte_d16_hi", {.bytes = 1, .is_signed = true, .high = true, .half = true}},
    {"short_d16", {.bytes = 2, .half = true}},
    {"short_d16_hi", {.bytes = 2, .high = true, .half = true}},
    {"dword", {.bytes = 4}},
    {"dwordx2", {.bytes = 8}},
    {"dwordx3", {.bytes = 12}},
    {"dwordx4", {.bytes = 16}},
};

inline constexpr Width kStoreWidths[] = {
    {"byte", {.bytes = 1}},     {"byte_d16_hi", {.bytes = 1, .high = true}},
    {"short", {.bytes = 2}},    {"short_d16_hi", {.bytes = 2, .high = true}},
    {"dword", {.bytes = 4}},    {"dwordx2", {.bytes = 8}},
    {"dwordx3", {.bytes = 12}}, {"dwordx4", {.bytes = 16}},
};

constexpr Detail in_space(Detail detail, Space space) {
  detail.space = space;
  return detail;
}

}  // namespace jaxator::emulator
