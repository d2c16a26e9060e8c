/// @file
/// What happens where a precondition does not hold: in a constant expression the call of a function that is not constexpr, whose
/// trace shows operation, rule and values; on a host an exception with their text; on a device a trap.
#pragma once

#include "src/layout/leaf.h"

namespace jaxator::layout {

/// A rule that was broken. {0}, {1} and {2} in the rule's text stand for the values.
struct Violation {
  const char* operation;
  const char* rule;
  int leaf;  // in the order of the text, from 0; -1 where no leaf is to blame
  Int values[3];
};

#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
[[noreturn]] __attribute__((device)) inline void precondition_violated(const Violation&) { __builtin_trap(); }
#elif defined(__AMDGCN__) || !defined(__cpp_exceptions)
[[noreturn]] inline void precondition_violated(const Violation&) { __builtin_trap(); }
#else
/// Throws std::invalid_argument. In text.cpp.
[[noreturn]] void precondition_violated(const Violation&);
#endif

}  // namespace jaxator::layout
