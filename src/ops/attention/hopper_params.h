/// @file
/// What the Hopper kernels of both passes are told about visibility. Plain data, filled in by cuda_common.h, read through
/// hopper_common.h.
#pragma once

namespace jaxator::hopper::attention {

/// An array that broadcasts to [B, N, T, S]: strides in elements, 0 along a dimension of size 1. data is null if absent.
struct PairArray {
  const void* data;
  long long batch, head, query, key;
  /// Keys 2 i and 2 i + 1 of a row lie in one aligned word of two elements, and S is even.
  int paired;
};

inline constexpr int kUnbounded = 0x7fffffff;

struct Visibility {
  const int *query_lengths, *key_lengths;    // [B], or null
  const int *query_segments, *key_segments;  // [B, T] and [B, S], or null
  PairArray mask;                            // bytes
  PairArray bias;
  int bias_type;                  // as DType: 0 float32, 1 bfloat16, 2 float16
  int query_length, key_length;   // T and S, at most 2^30
  int window_left, window_right;  // 0..2^30 or kUnbounded; causal has become window_right = 0
  int bottom_right;               // positions count from the ends of the sequences
};

}  // namespace jaxator::hopper::attention
