/// @file
/// Which keys a query sees by causal, window and lengths. Both ends of the interval grow with the query, so the keys of a
/// tile of queries are one interval too: tiles outside it are never visited.
#pragma once

#include <algorithm>
#include <cstdint>

#include "jaxator/attention.h"
#include "src/ops/attention/config.h"

namespace jaxator {

inline constexpr int64_t kKeyGranule = 8;  // keys of a register tile on the widest instruction set

/// Sizes of one batch entry.
struct BatchLimits {
  int64_t queries = 0, keys = 0;  // after lengths
  int64_t shift = 0;              // i' - i
};

/// Half-open.
struct KeySpan {
  int64_t begin = 0, end = 0;
  bool empty() const { return begin >= end; }
};

inline BatchLimits limits_of(const AttentionDesc& desc, const int32_t* query_lengths, const int32_t* key_lengths, int64_t batch) {
  BatchLimits limits{desc.query_length, desc.key_length, 0};
  if (query_lengths != nullptr) limits.queries = std::clamp<int64_t>(query_lengths[batch], 0, desc.query_length);
  if (key_lengths != nullptr) limits.keys = std::clamp<int64_t>(key_lengths[batch], 0, desc.key_length);
  if (desc.causal_bottom_right) limits.shift = limits.keys - limits.queries;
  return limits;
}

/// May be empty in either direction.
inline KeySpan keys_of_query(const AttentionDesc& desc, const BatchLimits& limits, int64_t query) {
  constexpr int64_t kFar = int64_t{1} << 40;  // wider than any sequence, and no sum overflows
  const int64_t at = query + limits.shift;
  KeySpan keys{0, limits.keys};
  if (desc.window_left >= 0) keys.begin = std::max<int64_t>(0, at - std::min(desc.window_left, kFar));
  if (desc.window_right >= 0) keys.end = std::min(keys.end, at + std::min(desc.window_right, kFar) + 1);
  if (desc.causal) keys.end = std::min(keys.end, at + 1);
  keys.end = std::max<int64_t>(keys.end, 0);
  return keys;
}

/// Keys that a tile of queries [first, last] visits: the union, widened to whole register tiles.
inline KeySpan keys_of_tile(const AttentionDesc& desc, const BatchLimits& limits, int64_t first, int64_t last) {
  const KeySpan low = keys_of_query(desc, limits, first), high = keys_of_query(desc, limits, last);
  if (low.begin >= high.end) return {0, 0};
  return {low.begin / kKeyGranule * kKeyGranule, round_up(high.end, kKeyGranule)};
}

}  // namespace jaxator
