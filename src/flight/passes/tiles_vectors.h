/// @file
/// What loops over tiles know of an x86 processor.
#pragma once

#include <cstdint>

namespace jaxator::flight {

struct Vectors {
  int64_t bytes = 64;  // of a register
  int64_t registers = 32;
  bool bf16_dot = false;  // two products of bf16 a lane (AVX512-BF16)
  bool int8_dot = false;  // four products of bytes a lane (AVX512-VNNI)
};

}  // namespace jaxator::flight
