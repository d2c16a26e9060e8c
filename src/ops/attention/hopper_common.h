/// @file
/// What both passes of attention share on Hopper: which pairs of query and key are visible, and reads of mask, bias and segments.
///
/// Causal, window and lengths are intervals whose ends grow with the query, so a tile of queries sees one interval of keys and
/// a tile of keys one of queries; tiles outside are not visited, and tiles where all sees all need no selection. Mask, bias and
/// segments are read pair by pair; they may only be read at query < T and key < S.
#pragma once

#include "src/ops/attention/hopper_params.h"
#include "src/tile/hopper/element.h"

namespace jaxator::hopper::attention {

/// The same value, but not to the optimiser: what is computed from it is computed here and not kept in registers from elsewhere.
template <class T> JAXATOR_DEVICE T opaque(T x) {
  asm volatile("" : "+r"(x));
  return x;
}

/// All of x is computed before what follows, as far as the compiler goes.
template <int N> JAXATOR_DEVICE void pin(float (&x)[N]) {
#pragma unroll
  for (int i = 0; i < N; i++) asm volatile("" : "+f"(x[i]));
}

/// The first lane's value. The assembler then knows that it is the same in every lane: loops and addresses that depend on it need
/// no vector registers, and wgmma's descriptors no moves from them (two of 10 cycles for each product).
template <class T> JAXATOR_DEVICE T uniform(T x) {
  T first;
  asm volatile("shfl.sync.idx.b32 %0, %1, 0, 31, -1;" : "=r"(first) : "r"(x));
  return first;
}

/// Whether any lane of the warp says so.
JAXATOR_DEVICE bool warp_any(bool mine) {
  u32 any;
  asm volatile("{\n.reg .pred mine, any;\nsetp.ne.u32 mine, %1, 0;\nvote.sync.any.pred any, mine, -1;\nselp.u32 %0, 1, 0, any;\n}"
               : "=r"(any)
               : "r"(static_cast<u32>(mine)));
  return any != 0;
}

JAXATOR_DEVICE int smaller(int a, int b) { return a < b ? a : b; }
JAXATOR_DEVICE int larger(int a, int b) { return a > b ? a : b; }

/// Sizes of one batch entry.
struct Limits {
  int queries, keys;  // after lengths
  int shift;          // query i stands at i + shift
};

/// Half-open.
struct Interval {
  int begin, end;
};

JAXATOR_DEVICE Limits limits_of(const Visibility& v, u32 batch) {
  Limits limits{v.query_length, v.key_length, 0};
  if (v.query_lengths != nullptr) limits.queries = smaller(larger(v.query_lengths[batch], 0), v.query_length);
  if (v.key_lengths != nullptr) limits.keys = smaller(larger(v.key_lengths[batch], 0), v.key_length);
  if (v.bottom_right) limits.shift = limits.keys - limits.queries;
  return limits;
}

/// The same where every lane of a warp asks for the same batch entry.
JAXATOR_DEVICE Limits uniform_limits_of(const Visibility& v, u32 batch) {
  const Limits limits = limits_of(v, batch);
  return {uniform(limits.queries), uniform(limits.keys), uniform(limits.shift)};
}

/// Keys that a query sees by causal, window and lengths; empty if begin >= end. Comparisons of differences: sums could pass 2^31.
/// Also right for queries up to 2^20 past the end, whose intervals are those the query would have.
JAXATOR_DEVICE Interval keys_of_query(const Visibility& v, const Limits& limits, int query) {
  const int at = query + limits.shift;
  const int end = v.window_right < limits.keys - at ? at + v.window_right + 1 : limits.keys;
  return {v.window_left < at ? at - v.window_left : 0, larger(end, 0)};
}

/// Queries that see a key by causal, window and lengths; empty if begin >= end.
JAXATOR_DEVICE Interval queries_of_key(const Visibility& v, const Limits& limits, int key) {
  const int at = key - limits.shift;
  const int end = v.window_left < limits.queries - at ? at + v.window_left + 1 : limits.queries;
  const int begin = v.window_right == kUnbounded ? 0 : at - v.window_right;
  return {larger(begin, 0), larger(end, 0)};
}

/// Mask, bias and segments of one batch entry and head.
struct Plane {
  const u8 *mask, *bias;  // null if absent
  const int *query_segments, *key_segments;
};

JAXATOR_DEVICE int bias_bytes(const Visibility& v) { return v.bias_type == 0 ? 4 : 2; }

JAXATOR_DEVICE Plane plane_of(const Visibility& v, u32 batch, u32 head) {
  Plane plane{};
  const auto start = [&](const PairArray& a) { return batch * a.batch + head * a.head; };
  if (v.mask.data != nullptr) plane.mask = static_cast<const u8*>(v.mask.data) + start(v.mask);
  if (v.bias.data != nullptr) plane.bias = static_cast<const u8*>(v.bias.data) + start(v.bias) * bias_bytes(v);
  if (v.query_segments != nullptr) {
    plane.query_segments = v.query_segments + static_cast<i64>(batch) * v.query_length;
    plane.key_segments = v.key_segments + static_cast<i64>(batch) * v.key_length;
  }
  return plane;
}

/// Descriptor of an operand whose k is the slow dimension (wgmma's Transpose): columns in groups of 64 that lie `group_bytes`
/// apart, each a matrix of 128-byte rows in the 128-byte swizzle. Advancing k by 16 rows adds 128.
JAXATOR_DEVICE u64 transposed_descriptor(u32 address, u32 group_bytes) {
  return static_cast<u64>((address & 0x3FFFF) >> 4) | static_cast<u64>(group_bytes >> 4) << 16 | u64{1024 >> 4} << 32 |
         u64{1} << 62;
}

}  // namespace jaxator::hopper::attention
