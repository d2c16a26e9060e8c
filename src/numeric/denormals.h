/// @file
/// XLA runs CPU handlers with denormals flushed. Code that promises bits keeps them for as long as it computes.
#pragma once

#include <cstdint>

namespace jaxator::numeric {

/// Clears flush-to-zero and denormals-are-zero of the calling thread (x86 MXCSR) and restores its control word in the end.
///
/// Arithmetic on registers alone is not ordered with these switches by a compiler. What it computes is safe where it reads its
/// operands from memory that others can see and writes its results there before the scope ends: an op's buffers, not its locals.
class KeepDenormals {
 public:
  KeepDenormals() : saved_(control()) {
    if (saved_ & kFlush) set_control(saved_ & ~kFlush);  // the switch costs tens of clocks
  }
  ~KeepDenormals() {
    if (saved_ & kFlush) set_control(saved_);
  }
  KeepDenormals(const KeepDenormals&) = delete;
  KeepDenormals& operator=(const KeepDenormals&) = delete;

  static uint32_t control() {
    uint32_t word;
    asm volatile("stmxcsr %0" : "=m"(word));
    return word;
  }
  static void set_control(uint32_t word) { asm volatile("ldmxcsr %0" : : "m"(word) : "memory"); }

  static constexpr uint32_t kFlushToZero = 1u << 15, kDenormalsAreZero = 1u << 6, kFlush = kFlushToZero | kDenormalsAreZero;

 private:
  const uint32_t saved_;
};

}  // namespace jaxator::numeric
