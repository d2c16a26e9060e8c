/// @file
/// Parameters of the CDNA kernels: written by the host, read from kernel-argument memory.
#pragma once

#include "src/tile/cdna/global.h"

namespace jaxator::cdna {

/// Pairs whose cos and sin a block holds for each of its rows; longer heads take several turns of the grid.
inline constexpr int kRopeTurn = 512;
/// Rows that a thread has in flight, two vectors of each: 16 KiB a block of 256 threads, of which a compute unit holds at least
/// two (8 KiB keep it busy).
inline constexpr int kRopeRows = 2;
/// Squarings of the ratio that a frequency is made of: columns of up to 2^31.
inline constexpr int kRopePowers = 30;

/// Of a frequency's 106 bits.
struct RopePower {
  double high, low;
};

/// A block [units of a head, heads at once, rows at once] has kRopeRows * blockDim.z rows. Those lie within 2^31 bytes.
struct Rope {
  const void JAXATOR_GLOBAL* x;
  const int JAXATOR_GLOBAL* positions;  // null with tables
  const float JAXATOR_GLOBAL* cosine;
  const float JAXATOR_GLOBAL* sine;
  void JAXATOR_GLOBAL* y;
  long long rows;
  long long angle_rows;
  unsigned heads;
  unsigned pairs;  // of a head
  bool interleaved;
  bool inverse;
  RopePower first;                // of pair 0, in quarter turns for each position
  RopePower powers[kRopePowers];  // [k]: pair i + 2^k has this times the frequency of pair i
};

}  // namespace jaxator::cdna
