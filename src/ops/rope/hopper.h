/// @file
/// Parameters of the Hopper kernels: written by the host, read from constant memory.
#pragma once

namespace jaxator::hopper {

/// Pairs whose cos and sin a block holds for each of its rows; longer heads take several turns of the grid.
inline constexpr int kRopeTurn = 512;
/// Rows that a thread has in flight: two vectors of each. 0.97 of a copy on bfloat16 [16384, 32, 128]; 0.95 with four rows, which
/// leave fewer threads, 0.84 with one.
inline constexpr int kRopeRows = 2;
/// Squarings of the ratio that a frequency is made of: columns of up to 2^31.
inline constexpr int kRopePowers = 30;

/// Of a frequency's 106 bits.
struct RopePower {
  double high, low;
};

/// A block [units of a head, heads at once, rows at once] has kRopeRows * blockDim.z rows.
struct Rope {
  const void* x;
  const int* positions;  // null with tables
  const float* cosine;
  const float* sine;
  void* y;
  long long rows;
  long long angle_rows;
  int heads;
  int pairs;  // of a head
  bool interleaved;
  bool inverse;
  RopePower first;                // of pair 0, in quarter turns for each position
  RopePower powers[kRopePowers];  // [k]: pair i + 2^k has this times the frequency of pair i
};

}  // namespace jaxator::hopper
