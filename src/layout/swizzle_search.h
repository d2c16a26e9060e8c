/// @file
/// The swizzle that makes a tile in shared memory free of conflicts for the access that writes it and the one that reads it.
#pragma once

#include "src/layout/banks.h"

namespace jaxator::layout {

/// What a search found. Without a swizzle that serves, `found` is false.
struct Proposal {
  bool found = false;
  Swizzle swizzle;  // without bits: none is needed
};

namespace detail {

inline constexpr int kMaxCandidates = 2304;  // more than any 8 bits of a row make with 48 of an index

/// Swizzles that may serve, the preferred ones first, and which of them still do.
struct Candidates {
  Swizzle all[kMaxCandidates];
  bool fits[kMaxCandidates] = {};
  int count = 0;

  constexpr void add(const Swizzle& swizzle) {
    if (count < kMaxCandidates) fits[count] = true, all[count++] = swizzle;
  }
};

constexpr int log2_ceil(int64_t n) {
  int bits = 0;
  while (int64_t{1} << bits < n) bits++;
  return bits;
}

/// Only bits of the index between `low` (within one access) and `row` (within one row of all banks) move an access to other
/// banks. They must be mixed with bits from `short_row` on, below `top`, where the tile ends: mixing those of one row only
/// renames its banks (so a negative shift never helps). Few bits are preferred, and near ones.
constexpr Candidates candidates(int low, int row, int short_row, int top) {
  Candidates result;
  result.add(Swizzle());
  for (int bits = 1; bits <= row - low; bits++)
    for (int shift = bits; shift < top; shift++)
      for (int base = low; base + bits <= row && base + bits + shift <= top; base++)
        if (base + bits + shift > short_row) result.add(Swizzle(bits, base, shift));
  return result;
}

/// Whether a swizzle keeps each access of an instruction whole, and all of them apart.
constexpr bool serves(const Swizzle& swizzle, const Phases& p, const Access& access, const int64_t (&index)[kMaxLanes],
                      int lanes) {
  const int64_t run = access.width / access.element;
  int64_t address[kMaxLanes] = {};
  for (int lane = 0; lane < lanes; lane++) {
    const int64_t from = index[lane];
    if (swizzle.bits > 0 && (from >> swizzle.base) != ((from + run - 1) >> swizzle.base)) return false;
    address[lane] = swizzle(from) * access.element;
  }
  for (int phase = 0; phase < p.count; phase++)
    if (passes_of(p, phase, address, lanes, access.width, 2) > 1) return false;
  return true;
}

constexpr void drop_conflicting(Candidates& candidates, const Layout& layout, const Access& access, Target target,
                                const Math<>& math) {
  const Phases p = phases(target, access.width, access.direction);
  for_instructions(thread_value(layout, access, math), access, p.lanes, math, [&](const int64_t (&index)[kMaxLanes], int lanes) {
    for (int lane = 0; lane < lanes; lane++) check_address(index[lane], access, target, math);
    for (int i = 0; i < candidates.count; i++)
      if (candidates.fits[i]) candidates.fits[i] = serves(candidates.all[i], p, access, index, lanes);
  });
}

}  // namespace detail

/// The first of all Swizzle<bits, base, shift> with which neither access has a conflict. The layouts are those of cost(): of all
/// threads that use the tile, before any swizzle. Every phase of every instruction is counted, so what is found is proved. No
/// index leaves its row of all banks (128 or 256 bytes), so a tile of whole rows stays within itself.
constexpr Proposal propose_swizzle(const Layout& write, const Access& write_access, const Layout& read, const Access& read_access,
                                   Target target) {
  const Math<> math{"propose_swizzle"};
  math.require(write_access.element == read_access.element,
               "elements of {0} bytes are written, but elements of {1} bytes are read", write_access.element,
               read_access.element);
  int low = 0, row = 0, short_row = 64, top = 0;  // in bits of an index
  const auto widen = [&](const Layout& layout, const Access& access) {
    const Phases p = phases(target, access.width, access.direction);
    const auto at_least = [](int& bits, int64_t n) { bits = detail::log2_ceil(n) > bits ? detail::log2_ceil(n) : bits; };
    at_least(low, access.width / access.element);
    const int bits = detail::log2_ceil(p.banks * p.bank_bytes / access.element);
    row = bits > row ? bits : row;
    short_row = bits < short_row ? bits : short_row;
    at_least(top, cosize(layout).value + access.width / access.element - 1);
  };
  widen(write, write_access);
  widen(read, read_access);
  detail::Candidates candidates = detail::candidates(low, row, short_row, top);
  detail::drop_conflicting(candidates, write, write_access, target, math);
  detail::drop_conflicting(candidates, read, read_access, target, math);
  for (int i = 0; i < candidates.count; i++)
    if (candidates.fits[i]) return {true, candidates.all[i]};
  return {};
}

}  // namespace jaxator::layout
