/// @file
/// Parameters of the CDNA kernels: written by the host, read from kernel-argument memory.
#pragma once

#include "src/tile/cdna/global.h"

namespace jaxator::cdna {

/// A block [threads of a row, rows] at (x, y) of the grid has rows from x * blockDim.y on, and of each row the units (see
/// tile/cdna/unit.h) from y * blockDim.x * kSwigluUnits on. Strides are those of rows, in elements.
struct SwigluShape {
  long long rows;
  long long operand_stride;  // of gate, up and their gradients
  long long result_stride;   // of y and dy
  unsigned units;            // of a row
  unsigned last_units;       // of the last row
  float limit;
};

struct SwigluForward {
  const void JAXATOR_GLOBAL* gate;
  const void JAXATOR_GLOBAL* up;
  void JAXATOR_GLOBAL* y;
  SwigluShape shape;
};

struct SwigluBackward {
  const void JAXATOR_GLOBAL* gate;
  const void JAXATOR_GLOBAL* up;
  const void JAXATOR_GLOBAL* dy;
  void JAXATOR_GLOBAL* dgate;
  void JAXATOR_GLOBAL* dup;
  SwigluShape shape;
};

/// Units of each array that a thread has in flight: 16 KiB a block, of which a compute unit holds eight (8 KiB keep it busy).
inline constexpr int kSwigluUnits = 2;

}  // namespace jaxator::cdna
