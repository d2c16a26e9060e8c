/// @file
/// Rotary position embedding (Su et al. 2021, arXiv:2104.09864). Pair i < columns / 2 of each head turns by an angle:
///   y1 = x1 * cos - x2 * sin      angle = position * theta^(-2 i / columns), or given as tables of cos and sin
///   y2 = x2 * cos + x1 * sin
/// The pair is (x[i], x[i + columns / 2]), or interleaved (x[2 i], x[2 i + 1]). The gradient is the inverse rotation of dy.
#pragma once

#include "jaxator/cuda.h"
#include "jaxator/executor.h"
#include "jaxator/rocm.h"
#include "jaxator/types.h"

namespace jaxator {

/// What is asked. x and y are row-major [rows, heads, columns]; a row is one position of one sequence.
struct RopeDesc {
  DType type = DType::f32;  // of x and y
  int64_t rows = 0;
  int64_t heads = 0;
  int64_t columns = 0;     // of one head: even
  int64_t angle_rows = 0;  // of positions or tables; row r takes row r % angle_rows, so a batch can share them
  double theta = 10000;
  bool interleaved = false;
  bool inverse = false;
  bool has_tables = false;

  /// Throws Error for negative sizes, odd columns, rows that are no multiple of angle_rows, or theta below 1 or not finite.
  void validate() const;
};

struct RopeArgs {
  const void* x;
  const int32_t* positions;  // [angle_rows]; null with tables
  const float* cosine;       // [angle_rows, columns / 2]; null without tables
  const float* sine;
  void* y;
};

/// Angles are reduced in float64, so cos and sin are right to 2 ulp of 1 for every int32 position. Throws Error for a bad
/// desc; zero sizes are legal.
void rope(const RopeDesc& desc, const RopeArgs& args, Executor& executor);

/// The same on a GPU: arrays lie in device memory, and the call returns before the work is done.
void rope(const RopeDesc& desc, const RopeArgs& args, const CudaStream& stream);
void rope(const RopeDesc& desc, const RopeArgs& args, const RocmStream& stream);

}  // namespace jaxator
