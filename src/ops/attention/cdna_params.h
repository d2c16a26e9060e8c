/// @file
/// Parameters of the CDNA kernels of both passes: written by the host (rocm_common.h), read from kernel-argument memory.
#pragma once

#include "src/tile/cdna/global.h"

namespace jaxator::cdna::attention {

/// An array that broadcasts to [B, N, T, S]: strides in elements, 0 along a dimension of size 1. data is null if absent.
struct PairArray {
  const void JAXATOR_GLOBAL* data;
  long long batch, head, query, key;
};

inline constexpr int kUnbounded = 0x7fffffff;

struct Visibility {
  const int JAXATOR_GLOBAL *query_lengths, *key_lengths;    // [B], or null
  const int JAXATOR_GLOBAL *query_segments, *key_segments;  // [B, T] and [B, S], or null
  PairArray mask;                                           // bytes
  PairArray bias;
  int bias_type;                  // as DType: 0 float32, 1 bfloat16, 2 float16
  int query_length, key_length;   // T and S, below 2^29
  int window_left, window_right;  // 0..2^30 or kUnbounded; causal has become window_right = 0
  int bottom_right;               // positions count from the ends of the sequences
};

/// Queries that a block of the forward kernel has, keys of a tile.
inline constexpr int kForwardQueries = 256, kForwardKeys = 64;

struct ForwardParams {
  Visibility see;
  const void JAXATOR_GLOBAL *q, *k, *v;  // [B, T, N, H], [B, S, K, H], [B, S, K, V]
  void JAXATOR_GLOBAL* out;              // [B, T, N, V]
  float JAXATOR_GLOBAL* lse;             // [B, T, N]
  int batch, heads, kv_heads;
  int tiles;                  // of queries
  int head_size, value_size;  // multiples of 8
  float scale;                // of logits in base 2; in the plain kernels positive
};

/// Rows of a block of the backward kernels: queries of one head for dq, keys of one key/value head for dk and dv.
inline constexpr int kGradientRows = 256;

/// Kernels of the backward pass: `rows` makes values of the query rows, then dq, dk and dv each have one of their own. Every one
/// computes P again; in turn nothing is summed across blocks, so there are no float32 sums in memory and the bits are the same
/// each time.
///
/// Row values are, for rows that see a key, lse / ln 2, or for the plain kernels -lse / factor, where their sums of products
/// begin; and -delta = dlse - rowsum(dout out). For other rows they are inf, or -inf for the plain kernels, and 0.
struct BackwardParams {
  Visibility see;
  const void JAXATOR_GLOBAL *q, *k, *v, *out, *dout;  // [B, T or S, N or K, H or V]
  const float JAXATOR_GLOBAL *lse, *dlse;             // [B, T, N]; dlse may be null
  void JAXATOR_GLOBAL* gradient;                      // dq, dk or dv
  float JAXATOR_GLOBAL *row_lse, *row_delta;          // [B, N, T]: row values
  float JAXATOR_GLOBAL* dbias;                        // in the shape of see.bias
  int batch, heads, kv_heads;
  int tiles;                  // of kGradientRows rows
  int head_size, value_size;  // multiples of 8
  int gradient_f32;           // the gradient is float32 instead of the type of q
  float scale;                // of logits in base 2; in the plain kernels positive
  float factor;               // of logits, and so of dq and dk
  int pairs;                  // the kernels for pairs are used
};

}  // namespace jaxator::cdna::attention
