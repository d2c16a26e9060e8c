/// @file
/// What host and device agree on in the forward pass: tiles, where they lie in shared memory, parameters.
#pragma once

#include "src/ops/attention/hopper_params.h"

namespace jaxator::hopper::attention {

/// A block of one producer warpgroup and a consumer warpgroup for each 64 queries. Shared memory: ring of query tiles, ring of
/// key tiles, ring of value tiles, barriers. A query tile is 64-column groups of [queries][64], the others alike.
struct ForwardTile {
  int head_size, value_size;  // columns, multiples of 64; narrower arrays are padded by the copy engine
  int queries, keys;
  /// A query tile's memory later holds its output. With two, the next queries arrive while this tile is worked on.
  int query_stages;
  int key_stages = 2;
  int producer_registers, consumer_registers;

  constexpr int warpgroups() const { return queries / 64; }
  constexpr int threads() const { return 128 * (1 + warpgroups()); }
  constexpr int query_bytes() const { return queries * head_size * 2; }
  constexpr int key_bytes() const { return keys * head_size * 2; }
  constexpr int value_bytes() const { return keys * value_size * 2; }
  constexpr int keys_at() const { return query_stages * query_bytes(); }
  constexpr int values_at() const { return keys_at() + key_stages * key_bytes(); }
  constexpr int barriers_at() const { return values_at() + key_stages * value_bytes(); }
  constexpr int shared_bytes() const { return barriers_at() + 8 * (2 * query_stages + 4 * key_stages + 1); }
};

/// A head size's tiles: for causal, window and lengths alone, and where pairs are read, which needs registers. Registers: a block
/// starts with 65536 / threads for each thread and moves them; of a consumer's, 128 are accumulators and operands of wgmma at
/// head size 64, 160 at 128 and 176 at 256. Measured beside these: 160 and 176 keys at 128, 1 to 20 % slower; 128 queries at 64,
/// 2 to 5 % slower; warpgroups that issue their products in turns, no difference.
constexpr ForwardTile forward_tile(int size, bool pairs) {
  ForwardTile tile{.head_size = size,
                   .value_size = size,
                   .queries = 128,
                   .keys = 128,
                   .query_stages = 2,
                   .producer_registers = 40,
                   .consumer_registers = 232};
  if (size == 64) tile.queries = 192, tile.producer_registers = 32, tile.consumer_registers = 160;
  if (pairs) tile.keys = 64;
  if (size == 256) tile.query_stages = 1, tile.keys = pairs ? 32 : 64;
  return tile;
}

struct ForwardParams {
  Visibility visibility;
  float* lse;  // [B, T, N]
  int batch, heads, heads_per_key_head;
  unsigned tiles;  // of queries, for each batch entry and head
  float scale;     // logits times this are exponents of 2: scale / ln 2
};

}  // namespace jaxator::hopper::attention
