/// @file
/// What was decided for one attention on a CPU.
#pragma once

#include <cstdint>

#include "jaxator/attention.h"
#include "jaxator/cpu.h"

namespace jaxator {

/// Tasks that the backward pass wants, and so the most parts it makes.
inline constexpr int64_t kMostParts = 16;

struct AttentionConfig {
  AttentionDot dot = AttentionDot::f32;  // never by_cpu_model
  int lanes = 16;                        // 32-bit lanes of a vector

  int64_t forward_rows = 256;      // query rows of one task
  int64_t forward_key_tile = 128;  // keys packed at a time
  int64_t backward_rows = 256;     // query rows packed at a time
  int64_t backward_key_tile = 64;

  /// Parts that the rows of one batch entry and key/value head are dealt to in the backward pass. Each part has its own sums of
  /// dk and dv, of `part_keys` keys; the sums are added in order.
  int64_t parts = 1;
  int64_t part_keys = 0;
  bool contiguous_parts = false;
  /// Backward scratch is bounded by running no more than this many tasks at a time.
  int64_t max_backward_slots = 64;

  /// Runs of backward_rows rows are dealt 0 1 .. P-1 P-1 .. 1 0 0 1 .., so that causal parts are equally long; with a window they
  /// are equal anyway, and neighbours share keys.
  int64_t part_of(int64_t run, int64_t runs) const {
    if (contiguous_parts) return run * parts / runs;
    const int64_t turn = run % (2 * parts);
    return turn < parts ? turn : 2 * parts - 1 - turn;
  }

  int group() const { return dot == AttentionDot::bf16 ? 2 : 1; }  // elements of a 32-bit word
  int tile_rows() const { return lanes / 2; }                      // of a register tile
  int tile_columns() const { return lanes * 2; }                   // of a register tile; query rows of a row tile
};

/// Throws UnsupportedError for a route that the type or the instruction set lacks.
AttentionConfig pick_config(const AttentionDesc& desc, const CpuFeatures& cpu, CpuIsa isa);

/// Query rows of one batch entry and key/value head: row r is query r / G of head r % G, with G = heads / kv_heads.
inline int64_t heads_per_group(const AttentionDesc& desc) { return desc.kv_heads == 0 ? 0 : desc.heads / desc.kv_heads; }
inline int64_t rows_of(const AttentionDesc& desc) { return desc.query_length * heads_per_group(desc); }
inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

}  // namespace jaxator
