/// @file
/// Logits of a tile of the backward pass where mask, bias or segments are read pair by pair.
#pragma once

#include "src/ops/attention/hopper_backward_schedule.h"

namespace jaxator::hopper::attention {

inline constexpr float kLog2E = 1.4426950408889634f;

/// s: products q k of 64 keys (rows, from first_row of the tile on) and kQueries queries in the accumulator layout; becomes
/// logits to base 2, -inf where invisible. A pass over the tile for each array that is there; each reads anew where the tile
/// lies, so that nothing stays in registers between them.
template <int kQueries> struct PairLogits {
  const BackwardParams& p;
  u32 band;  // address of the tile's Band
  u32 first_row;
  float (&s)[kQueries / 2];

  static constexpr int kTogether = kQueries == 64 ? 8 : 4;

  JAXATOR_DEVICE u32 me() const { return opaque(thread_x()) % 128; }
  JAXATOR_DEVICE int first_query() const { return load_shared_int(band + kBandQuery) + static_cast<int>(me() % 4 * 2); }
  JAXATOR_DEVICE int first_key() const {
    return load_shared_int(band + kBandKey) + static_cast<int>(first_row + me() / 32 * 16 + me() % 32 / 4);
  }

  /// apply(s, read(query, key), query, key) for each of the thread's pairs, with a few reads at a time under way. A warp's
  /// barrier keeps the assembler from starting more of them than there are registers, and the optimiser may not know where the
  /// thread stands, or it would compute what the passes share once and keep it.
  template <class Read, class Apply> JAXATOR_DEVICE void each(Read&& read, Apply&& apply) const {
    int query = first_query(), key = first_key();
#pragma unroll
    for (int i = 0; i < kQueries / 2; i += kTogether, query += 2 * kTogether) {
      query = opaque(query), key = opaque(key);
      decltype(read(query, key)) values[kTogether];
#pragma unroll
      for (int e = 0; e < kTogether; e++) values[e] = read(query + e / 4 * 8 + e % 2, key + e / 2 % 2 * 8);
#pragma unroll
      for (int e = 0; e < kTogether; e++) {
        apply(s[i + e], values[e], query + e / 4 * 8 + e % 2, key + e / 2 % 2 * 8);
        asm volatile("" : "+f"(s[i + e])::"memory");
      }
      warp_sync();
    }
  }

  /// Of a pair in a plane; of its first element for pairs past the ends. Strides in a plane are 0, 1 or S.
  JAXATOR_DEVICE i64 element(const PairArray& a, int query, int key) const {
    const i64 at = static_cast<i64>(query) * static_cast<int>(a.query) + key * static_cast<int>(a.key);
    return query < p.see.query_length && key < p.see.key_length ? at : 0;
  }

  JAXATOR_DEVICE Plane plane() const {
    return plane_of(p.see, load_shared_int(band + kBandBatch), load_shared_int(band + kBandHead));
  }

  JAXATOR_DEVICE void select_band() const {
    const int low = load_shared_int(band + kBandLow), first_key = load_shared_int(band + kBandKey);
    const int offset = low + first_key - load_shared_int(band + kBandQuery),
              end_key = first_key + load_shared_int(band + kBandKeys);
    const u32 width = load_shared_int(band + kBandWidth);
    const int end_query = load_shared_int(band + kBandEnd);
    each([](int, int) { return 0; },
         [&](float& x, int, int query, int key) {
           const bool seen = static_cast<u32>(key - query - offset) <= width && key < end_key && query < end_query;
           x = seen ? x * p.scale_log2 : -__builtin_inff();
         });
  }

  JAXATOR_DEVICE void select_mask() const {
    const u8* mask = plane().mask;
    each([&](int query, int key) { return static_cast<u32>(mask[element(p.see.mask, query, key)]); },
         [](float& x, u32 part, int, int) {
           if (part == 0) x = -__builtin_inff();
         });
  }

  /// Ids of the queries and of the keys lie in shared memory; a thread has two keys.
  JAXATOR_DEVICE void select_segments(u32 query_ids, u32 key_ids) const {
    const u32 mine = query_ids + me() % 4 * 8, keys = key_ids + (first_row + me() / 32 * 16 + me() % 32 / 4) * 4;
    const int other[2] = {load_shared_int(keys), load_shared_int(keys + 32)};
#pragma unroll
    for (int i = 0; i < kQueries / 8; i++)
#pragma unroll
      for (int e = 0; e < 4; e++) {
        const int id = load_shared_int(mine + i * 32 + e % 2 * 4);
        if (id != other[e / 2] || id < 0) s[4 * i + e] = -__builtin_inff();
      }
  }

  /// It may be NaN where the pair is invisible.
  template <class T> JAXATOR_DEVICE void add_bias() const {
    const T* bias = reinterpret_cast<const T*>(plane().bias);
    each([&](int query, int key) { return bias[element(p.see.bias, query, key)]; },
         [](float& x, T value, int, int) {
           if (x != -__builtin_inff()) x += to_float(value) * kLog2E;
         });
  }

  /// query_ids, key_ids: addresses of the tile's segment ids, read only where there are any.
  JAXATOR_DEVICE void run(u32 query_ids, u32 key_ids) const {
    select_band();
    if (p.see.query_segments != nullptr) select_segments(query_ids, key_ids);
    if (p.see.mask.data != nullptr) select_mask();
    if (p.see.bias.data == nullptr) return;
    if (p.see.bias_type == 0)
      add_bias<float>();
    else if (p.see.bias_type == 1)
      add_bias<Bf16>();
    else
      add_bias<F16>();
  }
};

}  // namespace jaxator::hopper::attention
