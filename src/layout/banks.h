/// @file
/// Which lanes a memory serves together, and what an access by a thread-value layout costs there. For static_assert and for run
/// time.
///
/// An access is one instruction of one wave: each lane moves `width` bytes. The memory serves the lanes in phases. In a phase,
/// each bank gives one word in a pass, to all lanes that want that word; other words of the same bank wait for further passes. So
/// a phase takes as many passes as the most distinct words that one bank is asked for, and what is over one is its conflicts.
#pragma once

#include "src/layout/swizzle.h"

namespace jaxator::layout {

/// The memory of a compute unit (LDS), of a multiprocessor (shared memory), and the first-level cache of a core.
enum class Target : uint8_t { gfx942, gfx950, sm_90, x86_64 };
inline constexpr const char* kTargetNames[] = {"gfx942", "gfx950", "sm_90", "x86-64"};

enum class Direction : uint8_t { read, write };

/// How the lanes of a phase are known: measured on the chip, stated by its maker, or taken to be like a neighbour's.
enum class Evidence : uint8_t { measured, documented, assumed };
inline constexpr const char* kEvidenceNames[] = {"measured", "documented", "assumed"};

inline constexpr int kMaxLanes = 64, kMaxBanks = 64;

struct Phases {
  int lanes = 0;  // of a wave, of a warp, of a vector
  int banks = 0, bank_bytes = 0;
  int count = 0;
  Evidence evidence = Evidence::assumed;
  uint8_t phase_of[kMaxLanes] = {};  // each lane's

  constexpr bool operator==(const Phases&) const = default;
};

namespace detail {

// ds_read_b96 and ds_read_b128 take lanes in fours. The phases of the eight fours of half a wave:
inline constexpr uint8_t kPhasesOfEight[] = {0, 1, 2, 3, 1, 0, 3, 2};    // {0-3,20-23} {4-7,16-19} {8-11,28-31} {12-15,24-27}
inline constexpr uint8_t kPhasesOfSixteen[] = {0, 1, 1, 0, 1, 0, 0, 1};  // {0-3,12-15,20-27} {4-11,16-19,28-31}

constexpr void take_fours(Phases& p, const uint8_t (&phase_of_four)[8]) {
  for (int lane = 0; lane < p.lanes; lane++)
    p.phase_of[lane] = static_cast<uint8_t>(lane / 32 * (p.count / 2) + phase_of_four[lane % 32 / 4]);
}

/// Phases of equally many lanes in order: as many as fill all banks once. Less than a word counts as one.
constexpr Phases in_order(int lanes, int banks, int width, Evidence evidence) {
  Phases p{lanes, banks, 4, 0, evidence, {}};
  int together = lanes;
  while (together * (width < 4 ? 4 : width) > banks * 4) together /= 2;
  p.count = lanes / together;
  for (int lane = 0; lane < lanes; lane++) p.phase_of[lane] = static_cast<uint8_t>(lane / together);
  return p;
}

/// LDS. gfx950, by HipKittens' conflict tests of all pairs of lanes: ds_read_b64 64 banks, 2 phases of 32 in order; ds_read_b96
/// 32 banks, 8 of 8; ds_read_b128 64 banks, 4 of 16; ds_write_b64 32 banks, 4 of 16 in order. gfx942, by timing pairs of lanes on
/// an MI300: 32 banks, ds_read_b64 4 phases of 16 in order, ds_read_b128 8 of 8; ds_write_b128 8 of 8 in order by AMD's
/// documentation of Composable Kernel. The other widths follow these.
constexpr Phases lds_phases(bool gfx950, int width, bool read) {
  const bool measured = gfx950 ? read || width == 8 : read && (width == 8 || width == 16);
  const Evidence evidence = width >= 8 && measured            ? Evidence::measured
                            : !gfx950 && !read && width == 16 ? Evidence::documented
                                                              : Evidence::assumed;
  Phases p = in_order(64, gfx950 && read && width != 12 ? 64 : 32, width, evidence);
  if (!read || width < 12) return p;
  if (p.count == 8)
    take_fours(p, kPhasesOfEight);
  else
    take_fours(p, kPhasesOfSixteen);
  return p;
}

constexpr bool power_of_two(int64_t n) { return n > 0 && (n & (n - 1)) == 0; }

}  // namespace detail

/// For accesses of `width` bytes a lane. sm_90: 32 banks of 4 bytes; 8 and 16 bytes a lane go by half and by quarter warps, and
/// so do the rows of ldmatrix and stmatrix. x86-64: a lane is an element of a vector of 64 bytes, and the cache gives one line of
/// 64 bytes in a pass: as one bank, whose word is a line.
constexpr Phases phases(Target target, int width, Direction direction = Direction::read) {
  const Math<> math{"phases"};
  const bool vector = target == Target::x86_64, lds = target == Target::gfx942 || target == Target::gfx950;
  math.require((detail::power_of_two(width) && width <= (vector ? 64 : 16)) || (lds && width == 12),
               vector ? "the width of {0} bytes must be 1, 2, 4, 8, 16, 32 or 64"
               : lds  ? "the width of {0} bytes must be 1, 2, 4, 8, 12 or 16"
                      : "the width of {0} bytes must be 1, 2, 4, 8 or 16",
               width);
  if (vector) return {64 / width, 1, 64, 1, Evidence::documented, {}};
  if (lds) return detail::lds_phases(target == Target::gfx950, width, direction == Direction::read);
  return detail::in_order(32, 32, width, Evidence::documented);
}

/// How the threads of a layout reach its indices.
struct Access {
  int width = 16;   // bytes that a lane moves with one instruction
  int element = 1;  // bytes of what the layout counts
  Direction direction = Direction::read;
};

struct Cost {
  int64_t instructions = 0;  // of all waves
  int64_t phases = 0;        // in which any lane takes part
  int64_t passes = 0;

  constexpr int64_t conflicts() const { return passes - phases; }
  constexpr bool operator==(const Cost&) const = default;
};

namespace detail {

/// A thread-value layout taken apart: (thread, value) -> swizzle(offset + threads(thread) + values(value)).
struct ThreadValue {
  Layout threads, values;
  int64_t offset = 0;
  Swizzle swizzle;
};

/// So many that a count would not end, or so far that addresses would overflow.
inline constexpr int64_t kMostIndices = int64_t{1} << 24, kFarthestIndex = int64_t{1} << 48;

constexpr ThreadValue thread_value(const Layout& layout, const Access& access, const Math<>& math) {
  math.require(access.element > 0 && access.width % access.element == 0,
               "the width of {0} bytes must be a multiple of the element's {1}", access.width, access.element);
  const int rank = layout.rank();
  math.require(rank == 1 || rank == 2, "a thread-value layout has one or two modes, not {0}", rank);
  for (int k = 0; k < layout.count; k++) {
    const auto [shape, stride] = layout.leaves[k];
    math.require(shape.is_static() || shape.value > 0, "shape {0} has no number", shape);
    math.require(stride.is_static() || stride.value > 0, "stride {0} has no number", stride);
  }
  math.require(size(layout).value <= kMostIndices, "{0} indices are more than {1}", size(layout), kMostIndices);
  math.require(cosize(layout).value <= kFarthestIndex, "the indices reach over {0}, more than {1}", cosize(layout),
               kFarthestIndex);
  const int64_t run = access.width / access.element;
  return {layout.mode(0), rank == 2 ? layout.mode(1) : Layout(Mode{run, 1}), 0, Swizzle()};
}

constexpr ThreadValue thread_value(const SwizzledLayout& layout, const Access& access, const Math<>& math) {
  ThreadValue parts = thread_value(layout.outer, access, math);
  math.require(layout.offset.is_leaf() && layout.offset.leaves[0].basis == 0, "the offset must be a number");
  parts.offset = layout.offset.leaves[0].value, parts.swizzle = layout.inner;
  math.require(parts.offset <= kFarthestIndex && parts.offset >= -kFarthestIndex, "the offset {0} is beyond {1}", parts.offset,
               kFarthestIndex);
  return parts;
}

/// visit(first index of each lane before the swizzle, lanes that take part) for each instruction of each wave.
template <class Visit>
constexpr void for_instructions(const ThreadValue& parts, const Access& access, int wave, const Math<>& math,
                                const Visit& visit) {
  const int64_t threads = size(parts.threads).value, values = size(parts.values).value, run = access.width / access.element;
  math.require(values % run == 0, "{0} values a thread are no multiple of the {1} of one access", values, run);
  for (int64_t value = 0; value < values; value += run) {
    const int64_t begin = parts.offset + parts.values(value);
    for (int64_t k = 1; k < run; k++)
      math.require(parts.offset + parts.values(value + k) == begin + k,
                   "values {0} and {1} of a thread must be neighbours in memory for an access of {2} bytes", value, value + k,
                   access.width);
    for (int64_t first = 0; first < threads; first += wave) {
      int64_t index[kMaxLanes] = {};
      const int lanes = static_cast<int>(threads - first < wave ? threads - first : wave);
      for (int lane = 0; lane < lanes; lane++) index[lane] = begin + parts.threads(first + lane);
      visit(index, lanes);
    }
  }
}

/// What the lanes of one instruction of `width` bytes ask of one phase, by the addresses of their first bytes. Stops at `enough`.
constexpr int passes_of(const Phases& p, int phase, const int64_t* address, int lanes, int width, int enough = kMaxLanes) {
  // A power of two of aligned bytes is in whole banks or in one, so that banks can be counted in its width.
  const int unit = p.bank_bytes < width && power_of_two(width) ? width : p.bank_bytes;
  const int columns = p.banks * p.bank_bytes / unit;
  int64_t asked[2 * kMaxLanes] = {};
  int before[2 * kMaxLanes] = {}, last[kMaxBanks] = {}, depth[kMaxBanks] = {};  // words of a column are chained, from 1
  int words = 0, most = 0;
  for (int lane = 0; lane < lanes && most < enough; lane++) {
    if (p.phase_of[lane] != phase) continue;
    for (int64_t word = address[lane] / unit; word <= (address[lane] + width - 1) / unit; word++) {
      const int64_t column = word % columns;
      int chain = last[column];
      while (chain != 0 && asked[chain - 1] != word) chain = before[chain - 1];
      if (chain != 0) continue;
      asked[words] = word, before[words] = last[column];
      last[column] = ++words;
      if (++depth[column] > most) most = depth[column];
    }
  }
  return most;
}

constexpr void check_address(int64_t index, const Access& access, Target target, const Math<>& math) {
  math.require(index >= 0, "index {0} must not be negative", index);
  const int alignment = target == Target::x86_64 ? 1 : access.width == 12 ? 4 : access.width;
  math.require(index * access.element % alignment == 0, "index {0} of elements of {1} bytes is not aligned to {2} bytes", index,
               access.element, alignment);
}

}  // namespace detail

/// What it costs to touch every index of a thread-value layout once: mode 0 counts threads, mode 1 the values of each, in
/// elements from an aligned address. The values go by accesses of `width` bytes in order; those of one access must be neighbours.
/// A layout of one mode gives the first index of each thread's only access.
template <class AnyLayout> constexpr Cost cost(const AnyLayout& layout, const Access& access, Target target) {
  const Math<> math{"conflicts"};
  const Phases p = phases(target, access.width, access.direction);
  const detail::ThreadValue parts = detail::thread_value(layout, access, math);
  const int64_t run = access.width / access.element;
  Cost sum;
  detail::for_instructions(parts, access, p.lanes, math, [&](int64_t (&index)[kMaxLanes], int lanes) {
    for (int lane = 0; lane < lanes; lane++) {
      const int64_t from = index[lane], to = parts.swizzle(from);
      for (int64_t k = 1; k < run && parts.swizzle.bits > 0; k++)
        math.require(parts.swizzle(from + k) == to + k, "the swizzle parts indices {0} and {1} of an access of {2} bytes", from,
                     from + k, access.width);
      detail::check_address(to, access, target, math);
      index[lane] = to * access.element;
    }
    sum.instructions++;
    for (int phase = 0; phase < p.count; phase++) {
      const int passes = detail::passes_of(p, phase, index, lanes, access.width);
      sum.phases += passes > 0;
      sum.passes += passes;
    }
  });
  return sum;
}

/// The passes beyond one a phase.
template <class AnyLayout> constexpr int64_t conflicts(const AnyLayout& layout, const Access& access, Target target) {
  return cost(layout, access, target).conflicts();
}

}  // namespace jaxator::layout
