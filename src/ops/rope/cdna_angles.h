/// @file
/// A block's cos and sin, taken once for each position and pair, in LDS, where they serve all heads.
#pragma once

#include "src/ops/rope/cdna.h"
#include "src/tile/cdna/angle.h"
#include "src/tile/cdna/memory.h"

namespace jaxator::cdna {

/// What one block has: rows from `row` on and, of each head, the pairs of one turn.
struct RopeBlock {
  const u32 first, pairs, rows;
  const i64 row;
  const u32 present_rows;  // the others are past the last one
  const i64 angle_row;     // of the first row

  JAXATOR_DEVICE explicit RopeBlock(const Rope& p)
      : first(block_y() * kRopeTurn),
        pairs(p.pairs - first < kRopeTurn ? p.pairs - first : kRopeTurn),
        rows(kRopeRows * threads_z()),
        row(i64{block_x()} * rows),
        present_rows(p.rows - row < rows ? static_cast<u32>(p.rows - row) : rows),
        angle_row(p.rows == p.angle_rows ? row : row % p.angle_rows) {}
};

/// cos [rows, pairs], then sin, each row in the order that the kernel's piece of an array has; then the positions [rows].
extern __attribute__((address_space(3), aligned(16))) float rope_tables[];

/// `n` floats of the tables from `index`, a multiple of n: 16 bytes a read at most.
template <int n> JAXATOR_DEVICE void load_table(u32 index, float (&out)[n]) {
  if constexpr (n == 1) {
    out[0] = rope_tables[index];
  } else {
    constexpr int kWidth = n < 4 ? n : 4;
    using Floats = float __attribute__((ext_vector_type(kWidth)));
    // In two steps: of an element of an array the compiler knows the array's alignment, and would read 4 bytes at a time.
    const __attribute__((address_space(3))) float* from = rope_tables + index;
    const Floats v = *reinterpret_cast<const __attribute__((address_space(3))) Floats*>(from);
#pragma unroll
    for (int i = 0; i < kWidth; i++) out[i] = v[i];
  }
}

JAXATOR_DEVICE Double2 frequency_of(const Rope& p, u32 pair) {
  Double2 frequency{p.first.high, p.first.low};
#pragma unroll 1
  for (u32 k = 0; pair >> k != 0; k++)
    if (pair >> k & 1) frequency = product(frequency, {p.powers[k].high, p.powers[k].low});
  return frequency;
}

/// Row of positions or of the caller's tables that a row of the block takes.
JAXATOR_DEVICE i64 angle_row(const Rope& p, const RopeBlock& block, u32 row) {
  const i64 at = block.angle_row + row;
  return at < p.angle_rows ? at : at % p.angle_rows;
}

/// Positions of the block's rows, kRopeRows a thread: a block has a thread for each row at once. Asked for before the elements
/// are: loads are waited for in order.
struct OwnPositions {
  int position[kRopeRows] = {};

  JAXATOR_DEVICE OwnPositions(const Rope& p, const RopeBlock& block, u32 thread, u32 threads) {
    if (p.positions == nullptr) return;
#pragma unroll
    for (u32 k = 0; k < kRopeRows; k++)
      if (thread + k * threads < block.rows) position[k] = p.positions[angle_row(p, block, thread + k * threads)];
  }
  /// To LDS, for every thread.
  JAXATOR_DEVICE void share(const RopeBlock& block, u32 to, u32 thread, u32 threads) const {
#pragma unroll
    for (u32 k = 0; k < kRopeRows; k++)
      if (thread + k * threads < block.rows) rope_tables[to + thread + k * threads] = bits_as<float>(position[k]);
    block_sync();
  }
};

/// Calls body(i, row) for each i of a row and row of the block, in the threads of the block. A thread keeps its i where the block
/// has a thread for each, and `prepare(i)` is called when it changes.
template <class Prepare, class Body>
JAXATOR_DEVICE void for_angles(const RopeBlock& block, u32 thread, u32 threads, Prepare&& prepare, Body&& body) {
  const u32 together = threads < block.pairs ? 1 : threads / block.pairs;  // rows at once
  const u32 first_row = threads < block.pairs ? 0 : thread / block.pairs;
  if (first_row >= together) return;
#pragma unroll 1
  for (u32 i = thread - first_row * block.pairs; i < block.pairs; i += threads) {
    prepare(i);
#pragma unroll 1
    for (u32 row = first_row; row < block.rows; row += together) body(i, row);
  }
}

/// Fills the tables; `pair_at(i)` is the pair whose angle is at i of a row. Positions go through LDS: nothing here then waits for
/// the elements, which are on their way.
template <class PairAt>
JAXATOR_DEVICE void make_angles(const Rope& p, const RopeBlock& block, u32 thread, u32 threads, const OwnPositions& own,
                                PairAt&& pair_at) {
  const u32 sines = block.rows * block.pairs, positions = 2 * sines;
  const float sign = p.inverse ? -1.0f : 1.0f;
  if (p.positions != nullptr) {
    own.share(block, positions, thread, threads);
    Double2 frequency{};
    for_angles(
        block, thread, threads, [&](u32 i) { frequency = frequency_of(p, block.first + pair_at(i)); },
        [&](u32 i, u32 row) {
          const SineCosine at = sine_cosine(bits_as<int>(rope_tables[positions + row]), frequency);
          rope_tables[row * block.pairs + i] = at.cosine;
          rope_tables[sines + row * block.pairs + i] = at.sine * sign;
        });
  } else {
    u32 pair = 0;
    for_angles(
        block, thread, threads, [&](u32 i) { pair = block.first + pair_at(i); },
        [&](u32 i, u32 row) {
          const i64 from = angle_row(p, block, row) * p.pairs + pair;
          rope_tables[row * block.pairs + i] = p.cosine[from];
          rope_tables[sines + row * block.pairs + i] = p.sine[from] * sign;
        });
  }
}

}  // namespace jaxator::cdna
