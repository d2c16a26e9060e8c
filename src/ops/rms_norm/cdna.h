/// @file
/// Parameters of the CDNA kernels: written by the host, read from kernel-argument memory. Rows are row-major [rows, columns].
#pragma once

#include "src/tile/cdna/global.h"

namespace jaxator::cdna {

struct RmsNormForward {
  const void JAXATOR_GLOBAL* x;
  const void JAXATOR_GLOBAL* residual;  // null: none
  const float JAXATOR_GLOBAL* weight;   // null: ones
  void JAXATOR_GLOBAL* y;
  void JAXATOR_GLOBAL* sum;  // null without a residual
  long long rows;
  unsigned columns;
  float inverse_columns;
  float epsilon;
};

struct RmsNormBackward {
  const void JAXATOR_GLOBAL* sum;
  const float JAXATOR_GLOBAL* weight;  // null: ones
  const void JAXATOR_GLOBAL* dy;
  const void JAXATOR_GLOBAL* dsum;  // null: none
  void JAXATOR_GLOBAL* dx;
  float JAXATOR_GLOBAL* partials;  // [blocks or (element by element) row groups, columns]; null without a weight
  long long rows;
  unsigned columns;
  unsigned groups;  // rows that are under way at once: how far a block's (or wave's) next row is
  float inverse_columns;
  float epsilon;
};

}  // namespace jaxator::cdna
