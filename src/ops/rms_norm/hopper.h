/// @file
/// Parameters of the Hopper kernels: written by the host, read from constant memory. Rows are row-major [rows, columns].
#pragma once

namespace jaxator::hopper {

struct RmsNormForward {
  const void* x;
  const void* residual;  // null: none
  const float* weight;   // null: ones
  void* y;
  void* sum;  // null without a residual
  long long rows;
  int columns;
  float inverse_columns;
  float epsilon;
};

struct RmsNormBackward {
  const void* sum;
  const float* weight;  // null: ones
  const void* dy;
  const void* dsum;  // null: none
  void* dx;
  float* partials;  // [blocks or (element by element) row groups, columns]; null without a weight
  long long rows;
  int columns;
  float inverse_columns;
  int stages;  // of the ring that rows come through
  float epsilon;
};

}  // namespace jaxator::hopper
