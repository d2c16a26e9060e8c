/// @file
/// Parameters of the Hopper kernels: written by the host, read from constant memory. Rows are row-major [rows, columns].
#pragma once

namespace jaxator::hopper {

struct LayerNormForward {
  const void* x;
  const float* weight;  // null: ones
  const float* bias;    // null: zeros
  void* y;
  long long rows;
  int columns;
  float inverse_columns;
  float epsilon;
};

struct LayerNormBackward {
  const void* x;
  const float* weight;  // null: ones
  const void* dy;
  void* dx;
  float* dweight_partials;  // [blocks or (element by element) row groups, columns]; null without a weight
  float* dbias_partials;    // the same; null without a bias
  long long rows;
  int columns;
  float inverse_columns;
  int stages;  // of the ring that rows come through
  float epsilon;
};

}  // namespace jaxator::hopper
