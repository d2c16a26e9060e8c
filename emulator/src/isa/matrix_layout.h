/// @file
/// Where the matrix instructions find and leave their elements, after AMD's matrix instruction calculator, and for gfx950 after
/// layouts recorded on hardware (docs/emulator.md says which).
#pragma once

#include "emulator/src/isa/floats.h"
#include "emulator/src/machine/launch_state.h"

namespace jaxator::emulator {

inline constexpr int kMaxMatrixWords = 16;  // registers of A or B

enum class Element : u8 { f64, f32, xf32, f16, bf16, i8, fp8, bf8, fp8fnuz, bf8fnuz, fp6, bf6, fp4 };

constexpr int bits_of(Element type) {
  switch (type) {
    case Element::f64:
      return 64;
    case Element::f32:
    case Element::xf32:
      return 32;
    case Element::f16:
    case Element::bf16:
      return 16;
    case Element::fp6:
    case Element::bf6:
      return 6;
    case Element::fp4:
      return 4;
    default:
      return 8;
  }
}

/// D[rows, columns] += A[rows, depth] B[depth, columns], for each block.
struct MatrixShape {
  int rows, columns, depth, blocks;
};

/// What a lane holds of A or B: `count` elements of one row (column) of one block, by groups of lanes.
struct OperandLayout {
  int extent, blocks;  // rows of A or columns of B
  int groups, count;

  constexpr OperandLayout(int extent, int depth, int blocks)
      : extent(extent), blocks(blocks), groups(kLanes / (extent * blocks)), count(depth / groups) {}

  constexpr int row(int lane) const { return lane % extent; }
  constexpr int block(int lane) const { return lane / extent % blocks; }
  constexpr int group(int lane) const { return lane / (extent * blocks); }
  /// Depth of the lane's element. More than 16 elements of 8 bits come in chunks of 16, which the groups take in turn.
  constexpr int depth_of(int lane, int element, int bits) const {
    if (count > 16 && bits >= 8) return (element / 16 * groups + group(lane)) * 16 + element % 16;
    return group(lane) * count + element;
  }
};

/// Register (in units of the result's type) and lane of an element of C or D. Rows go by fours in single precision, one by one in
/// double; small blocks lie side by side in the lanes, others one after another in registers.
struct ResultPlace {
  int reg, lane;
};
constexpr ResultPlace result_place(const MatrixShape& s, int unit, int block, int row, int column) {
  const bool in_lanes = s.rows == 4;
  const int width = s.columns * (in_lanes ? s.blocks : 1), groups = kLanes / width, rows_of_unit = row / unit;
  const int reg = unit * (rows_of_unit / groups) + row % unit + (in_lanes ? 0 : block * s.rows * s.columns / kLanes);
  return {reg, rows_of_unit % groups * width + (in_lanes ? block * s.columns : 0) + column};
}

/// Decodes `count` elements of a lane's words.
void decode_elements(Element type, const u32* words, int count, float* out);
void decode_elements(Element type, const u32* words, int count, i32* out);
void decode_elements(Element type, const u32* words, int count, double* out);

/// The lane that B's data comes from under BLGP.
constexpr int pattern_lane(int blgp, int lane) {
  switch (blgp) {
    case 1:
      return lane & 31;  // the first 32 lanes for all
    case 2:
      return 32 + (lane & 31);  // the last 32
    case 3:
      return (lane + 16) & 63;  // rotated by 16
    case 4:
    case 5:
    case 6:
    case 7:
      return 16 * (blgp - 4) + (lane & 15);  // one group of 16 for all
    default:
      return lane;
  }
}

/// Sums over the depth in order, with fused multiply-add.
template <class T, int columns>
void multiply_rows(int rows, int depth, const T* a, const T* b, T* c) {
  for (int r = 0; r < rows; r++) {
    T sum[columns];
    for (int j = 0; j < columns; j++) sum[j] = c[r * columns + j];
    for (int k = 0; k < depth; k++) {
      const T factor = a[r * depth + k];
      for (int j = 0; j < columns; j++) {
        if constexpr (std::is_same_v<T, i32>)
          sum[j] = static_cast<i32>(static_cast<u32>(sum[j]) + static_cast<u32>(factor * b[k * columns + j]));
        else
          sum[j] = std::fma(factor, b[k * columns + j], sum[j]);
      }
    }
    for (int j = 0; j < columns; j++) c[r * columns + j] = sum[j];
  }
}

template <class T> void multiply(const MatrixShape& s, const T* a, const T* b, T* c) {
  if (s.columns == 32)
    multiply_rows<T, 32>(s.rows, s.depth, a, b, c);
  else if (s.columns == 16)
    multiply_rows<T, 16>(s.rows, s.depth, a, b, c);
  else
    multiply_rows<T, 4>(s.rows, s.depth, a, b, c);
}

}  // namespace jaxator::emulator
