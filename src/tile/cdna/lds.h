/// @file
/// Tiles in LDS: reads and writes by byte offset, and where the parts of a row lie so that no access has bank conflicts, proved
/// at compile time for both targets.
#pragma once

#include "src/layout/banks.h"
#include "src/tile/cdna/element.h"

namespace jaxator::cdna {

/// An address in LDS. A kernel has one array, with buffers by offset: of several variables the compiler tracks which a load from
/// global memory may write, and waits for all of them wherever it is not sure.
using Lds = __attribute__((address_space(3))) u8*;

using Lanes2 = u32 __attribute__((ext_vector_type(2)));

template <class T> JAXATOR_DEVICE T lds_load(Lds memory, u32 offset) {
  return *reinterpret_cast<const __attribute__((address_space(3))) T*>(memory + offset);
}
template <class T> JAXATOR_DEVICE void lds_store(Lds memory, u32 offset, T value) {
  *reinterpret_cast<__attribute__((address_space(3))) T*>(memory + offset) = value;
}

/// The address as instructions take it.
JAXATOR_DEVICE u32 lds_address(Lds memory) { return static_cast<u32>(reinterpret_cast<__UINTPTR_TYPE__>((u8*)memory)); }

#if defined(__gfx950__)
/// Transposing reads: in each 16 lanes, lane l gives the address of 8 bytes. For 16-bit elements lane l gets element l % 4 of
/// lanes l / 4, l / 4 + 4, + 8 and + 12: of a block of four rows of k by 16 columns, lane s at row s / 4 and columns 4 * (s % 4),
/// it gets column l of the four rows. For 8-bit elements (eight rows, lane s at row s / 2 and columns 8 * (s % 2)) column l of
/// the eight rows.
///
/// The compiler does not wait for what assembly reads: the caller does, by wait<63, 0>() or a smaller count, before any use. The
/// builtin would wait for every load from global memory first, which might write what it reads.
template <int offset> JAXATOR_DEVICE Lanes2 lds_load_transposed_16(u32 address) {
  Lanes2 v;
  asm volatile("ds_read_b64_tr_b16 %0, %1 offset:%2" : "=v"(v) : "v"(address), "n"(offset));
  return v;
}
template <int offset> JAXATOR_DEVICE Lanes2 lds_load_transposed_8(u32 address) {
  Lanes2 v;
  asm volatile("ds_read_b64_tr_b8 %0, %1 offset:%2" : "=v"(v) : "v"(address), "n"(offset));
  return v;
}
#endif

#if defined(__gfx950__)
inline constexpr layout::Target kLdsTarget = layout::Target::gfx950;
#else
inline constexpr layout::Target kLdsTarget = layout::Target::gfx942;
#endif

/// The passes beyond one a phase of an access of `width` bytes by a wave whose lane l is at address(l).
template <class Address>
constexpr int lds_conflicts(int width, layout::Direction direction, const Address& address, layout::Target target = kLdsTarget) {
  const layout::Phases phases = layout::phases(target, width, direction);
  int64_t at[layout::kMaxLanes] = {};
  for (int lane = 0; lane < 64; lane++) at[lane] = address(static_cast<u32>(lane));
  int conflicts = 0;
  for (int phase = 0; phase < phases.count; phase++) conflicts += layout::detail::passes_of(phases, phase, at, 64, width) - 1;
  return conflicts;
}

/// Rows of `RowBytes` bytes whose 16-byte chunks are read by lane groups: lane l takes chunk l / 16 (+ 4, ...) of row l % 16, or
/// chunk l / 32 of row l % 32. Chunk c of row r lies in slot c ^ key(r), where the key counts lines of all banks.
template <u32 RowBytes, layout::Target target = kLdsTarget> struct SwizzledRows {
  static constexpr u32 kChunks = RowBytes / 16;
  static constexpr u32 kLineBytes = target == layout::Target::gfx950 ? 256 : 128;
  static constexpr u32 kLineRows = kLineBytes > RowBytes ? kLineBytes / RowBytes : 1;

  /// Down where a line has four rows: the phases of gfx950 then read the chunks of neighbouring lines together.
  static constexpr JAXATOR_DEVICE u32 key(u32 row) { return (kLineRows == 4 ? 0 - row / kLineRows : row / kLineRows) % kChunks; }
  static constexpr JAXATOR_DEVICE u32 offset(u32 row, u32 chunk) { return row * RowBytes + (chunk ^ key(row)) * 16; }

  /// Of reads by rows of 16 and of 32 lanes, and of writes lane after lane.
  static constexpr int conflicts() {
    int sum = 0;
    for (u32 chunk = 0; chunk < kChunks; chunk += 4)
      sum += lds_conflicts(16, layout::Direction::read, [=](u32 l) { return offset(l % 16, chunk + l / 16); }, target);
    for (u32 chunk = 0; chunk < kChunks; chunk += 2)
      sum += lds_conflicts(16, layout::Direction::read, [=](u32 l) { return offset(l % 32, chunk + l / 32); }, target);
    return sum + lds_conflicts(16, layout::Direction::write, [](u32 l) { return l * 16; }, target);
  }
};
static_assert(SwizzledRows<64, layout::Target::gfx950>::conflicts() == 0);
static_assert(SwizzledRows<128, layout::Target::gfx950>::conflicts() == 0);
static_assert(SwizzledRows<256, layout::Target::gfx950>::conflicts() == 0);
static_assert(SwizzledRows<64, layout::Target::gfx942>::conflicts() == 0);
static_assert(SwizzledRows<128, layout::Target::gfx942>::conflicts() == 0);

}  // namespace jaxator::cdna
