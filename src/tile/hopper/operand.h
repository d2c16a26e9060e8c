/// @file
/// Operand tiles of wgmma in shared memory: how a tile that the copy engine loaded lies there, and the descriptors that name it.
#pragma once

#include "src/tile/hopper/wgmma.h"

namespace jaxator::hopper {

/// Which dimension of an operand is contiguous in memory: the contraction, or the one that the result keeps.
enum class Major { k, mn };

/// Bytes of k in one tile: a row of the 128-byte swizzle.
inline constexpr u32 kSwizzleBytes = 128;
/// Bytes of 64 rows of a tile, in either layout.
inline constexpr u32 kBlockBytes = 64 * kSwizzleBytes;

template <class T> inline constexpr u32 kItemBytes = kIsTf32<T> ? 4 : 2;

/// A tile of any multiple of 64 rows (of M or N) and 128 bytes of k. k-major, it is one box of [rows][128 bytes]; mn-major, a box
/// of [64 k][64 rows] for each 64 rows. Both have 8192 bytes for 64 rows, so parts of a tile are found the same way.
template <class T, Major major> struct Operand {
  static_assert(major == Major::k || !kIsTf32<T>, "wgmma takes 32-bit elements with k contiguous only");
  static constexpr int kDepth = static_cast<int>(kSwizzleBytes / kItemBytes<T>);  // elements of k
  static constexpr int kProducts = kDepth / kWgmmaDepth<T>;                       // wgmma steps that use it up
  static constexpr bool kTransposed = major == Major::mn;

  JAXATOR_DEVICE static u64 descriptor(u32 address) {
    if constexpr (major == Major::k) return matrix_descriptor(address);
    // Blocks of 64 rows are 8192 bytes apart, groups of eight k 1024 (PTX reference, strides of an mn-major matrix).
    return static_cast<u64>((address & 0x3FFFF) >> 4) | u64{kBlockBytes >> 4} << 16 | u64{1024 >> 4} << 32 | u64{1} << 62;
  }
  /// Bytes from the tile's start to row `row`, a multiple of 8.
  JAXATOR_DEVICE static u32 offset(u32 row) {
    if constexpr (major == Major::k) return row * kSwizzleBytes;
    return row / 64 * kBlockBytes + row % 64 * kItemBytes<T>;
  }
  /// What step i adds to the descriptor, in units of 16 bytes: 32 bytes along a row, or 16 rows of k.
  JAXATOR_DEVICE static u64 advance(int i) { return static_cast<u64>(i) * (major == Major::k ? 2 : 16 * kSwizzleBytes >> 4); }
};

}  // namespace jaxator::hopper
