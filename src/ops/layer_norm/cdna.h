/// @file
/// Parameters of the CDNA kernels: written by the host, read from kernel-argument memory. Rows are row-major [rows, columns].
#pragma once

#include "src/tile/cdna/global.h"

namespace jaxator::cdna {

struct LayerNormForward {
  const void JAXATOR_GLOBAL* x;
  const float JAXATOR_GLOBAL* weight;  // null: ones
  const float JAXATOR_GLOBAL* bias;    // null: zeros
  void JAXATOR_GLOBAL* y;
  long long rows;
  unsigned columns;
  float inverse_columns;
  float epsilon;
};

struct LayerNormBackward {
  const void JAXATOR_GLOBAL* x;
  const float JAXATOR_GLOBAL* weight;  // null: ones
  const void JAXATOR_GLOBAL* dy;
  void JAXATOR_GLOBAL* dx;
  float JAXATOR_GLOBAL* dweight_partials;  // [blocks or (element by element) row groups, columns]; null without a weight
  float JAXATOR_GLOBAL* dbias_partials;    // the same; null without a bias
  long long rows;
  unsigned columns;
  unsigned groups;  // rows that are under way at once: how far a block's (or wave's) next row is
  float inverse_columns;
  float epsilon;
};

}  // namespace jaxator::cdna
