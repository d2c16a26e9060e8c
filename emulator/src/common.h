/// @file
/// Names that every part of the emulator uses. Fixed-width integers are abbreviated as in AMD's ISA documents.
#pragma once

#include <bit>
#include <cstdint>
#include <string>

#include "jaxator/emulator.h"

namespace jaxator::emulator {

using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using i8 = int8_t;
using i16 = int16_t;
using i32 = int32_t;
using i64 = int64_t;

inline constexpr int kLanes = 64;  // of a wave
inline constexpr u64 kAllLanes = ~u64{0};

/// Architecture registers v0..v255, then accumulation registers a0..a255.
inline constexpr int kVectorRegisters = 512, kFirstAccumulator = 256;

/// Numbers of scalar registers as instructions encode them.
enum ScalarRegister : u16 {
  kFlatScratch = 102,
  kVcc = 106,
  kTrapTemporary = 108,
  kM0 = 124,
  kExec = 126,
  kSharedBase = 235,
  kPrivateBase = 237,
  kVccIsZero = 251,
  kExecIsZero = 252,
  kScc = 253,
  kScalarRegisters = 256
};
inline constexpr int kUserScalars = 102;  // s0..s101

constexpr float as_float(u32 bits) { return std::bit_cast<float>(bits); }
constexpr u32 as_bits(float value) { return std::bit_cast<u32>(value); }
constexpr double as_double(u64 bits) { return std::bit_cast<double>(bits); }
constexpr u64 as_bits(double value) { return std::bit_cast<u64>(value); }

constexpr bool lane_in(u64 mask, int lane) { return (mask >> lane & 1) != 0; }
constexpr u64 low_lanes(int count) { return count >= kLanes ? kAllLanes : (u64{1} << count) - 1; }
constexpr u64 join(u32 low, u32 high) { return low | u64{high} << 32; }
/// The `count` low bits as a signed number.
constexpr i32 sign_extend(u32 value, int count) { return static_cast<i32>(value << (32 - count)) >> (32 - count); }

std::string hex(u64 value);

/// Throws Error with the words joined.
template <class... Words> [[noreturn]] void fail(const Words&... words) {
  std::string text;
  const auto add = [&](const auto& word) {
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(word)>>)
      text += std::to_string(word);
    else
      text += word;
  };
  (add(words), ...);
  throw Error(text);
}

}  // namespace jaxator::emulator
