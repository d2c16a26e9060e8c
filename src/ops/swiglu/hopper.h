/// @file
/// Parameters of the Hopper kernels: written by the host, read from constant memory.
#pragma once

namespace jaxator::hopper {

/// Rows are cut into pieces of `blockDim.x * kSwigluUnits` units (see tile/hopper/unit.h), one for a block. Strides are those of
/// rows, in elements.
struct SwigluShape {
  long long rows;
  long long units;           // of a row
  long long operand_stride;  // of gate, up and their gradients
  long long result_stride;   // of y and dy
  int pieces;                // of a row
  float limit;
};

struct SwigluForward {
  const void* gate;
  const void* up;
  void* y;
  SwigluShape shape;
};

struct SwigluBackward {
  const void* gate;
  const void* up;
  const void* dy;
  void* dgate;
  void* dup;
  SwigluShape shape;
};

/// Units of each array that a thread has in flight.
inline constexpr int kSwigluUnits = 2;

}  // namespace jaxator::hopper
