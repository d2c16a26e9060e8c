/// @file
/// Rotary embedding on Hopper: bound by memory. A block's cos and sin are taken once for each position and pair, into shared
/// memory, and serve all heads; the elements are on their way meanwhile.
#include "src/ops/rope/hopper.h"
#include "src/tile/hopper/angle.h"
#include "src/tile/hopper/unit.h"

namespace jaxator::hopper {
namespace {

/// What one block has: rows from `row` on and, of each head, the pairs of one turn. Shared memory: cos [rows, pairs], then sin.
struct Block {
  const int first, pairs, rows;
  const i64 row;
  const u32 cosines, sines;

  JAXATOR_DEVICE explicit Block(const Rope& p)
      : first(static_cast<int>(block_y()) * kRopeTurn),
        pairs(p.pairs - first < kRopeTurn ? p.pairs - first : kRopeTurn),
        rows(kRopeRows * static_cast<int>(threads_z())),
        row(i64{block_x()} * rows),
        cosines(shared_base()),
        sines(cosines + static_cast<u32>(rows * pairs) * 4) {}
};

JAXATOR_DEVICE Double2 frequency_of(const Rope& p, int pair) {
  Double2 frequency{p.first.high, p.first.low};
#pragma unroll 1
  for (int k = 0; pair >> k != 0; k++)
    if (pair >> k & 1) frequency = product(frequency, {p.powers[k].high, p.powers[k].low});
  return frequency;
}

/// Fills the block's tables. A thread keeps its pair where the block has a thread for each, so that a frequency is made once; the
/// next position is asked for before the angle of the one before is made.
JAXATOR_DEVICE void make_angles(const Rope& p, const Block& block) {
  const int threads = static_cast<int>(threads_x() * threads_y() * threads_z());
  const int thread = static_cast<int>((thread_z() * threads_y() + thread_y()) * threads_x() + thread_x());
  const int together = threads < block.pairs ? 1 : threads / block.pairs;  // rows at once
  const int first_row = threads < block.pairs ? 0 : thread / block.pairs;
  if (first_row >= together) return;
  const i64 base = p.rows == p.angle_rows ? block.row : block.row % p.angle_rows;
  const auto angle_row = [&](int row) {
    const i64 at = base + row;
    return at < p.angle_rows ? at : at % p.angle_rows;
  };
  const float sign = p.inverse ? -1.0f : 1.0f;
#pragma unroll 1
  for (int i = thread - first_row * block.pairs; i < block.pairs; i += threads) {
    int position = p.positions != nullptr ? p.positions[angle_row(first_row)] : 0;
    const Double2 frequency = p.positions != nullptr ? frequency_of(p, block.first + i) : Double2{};
#pragma unroll 1
    for (int row = first_row; row < block.rows;) {
      const u32 to = static_cast<u32>(row * block.pairs + i) * 4;
      const i64 table = angle_row(row) * p.pairs + block.first + i;
      row += together;
      SineCosine at;
      if (p.positions != nullptr) {
        const int next = row < block.rows ? p.positions[angle_row(row)] : 0;
        at = sine_cosine(position, frequency);
        position = next;
      } else {
        at = {p.sine[table], p.cosine[table]};
      }
      store_shared(block.cosines + to, at.cosine);
      store_shared(block.sines + to, at.sine * sign);
    }
  }
}

/// `n` floats of shared memory.
template <int n> JAXATOR_DEVICE void load_floats(u32 from, float (&out)[n]) {
  if constexpr (n % 4 == 0) {
#pragma unroll
    for (int i = 0; i < n; i += 4) {
      float four[4];
      unpack<float>(load_shared_vector(from + i * 4), four);
#pragma unroll
      for (int j = 0; j < 4; j++) out[i + j] = four[j];
    }
  } else {
#pragma unroll
    for (int i = 0; i < n; i++) out[i] = load_shared(from + i * 4);
  }
}

/// a, b -> the pairs (a[i], b[i]) turned.
template <int n> JAXATOR_DEVICE void turn_pairs(float (&a)[n], float (&b)[n], u32 cosines, u32 sines) {
  float c[n], s[n];
  load_floats(cosines, c), load_floats(sines, s);
#pragma unroll
  for (int i = 0; i < n; i++) {
    const float turned = a[i] * c[i] - b[i] * s[i];
    b[i] = b[i] * c[i] + a[i] * s[i];
    a[i] = turned;
  }
}

/// What a thread turns at once: `at` counts elements of the first halves, x the elements of the block's turn.
///
/// Pairs half a head apart.
template <class T, bool vectors> struct Halves {
  using U = Unit<T, vectors>;
  static constexpr int kStep = U::kElements;
  U first, second;

  JAXATOR_DEVICE static int first_element(const Block& block) { return block.first; }
  JAXATOR_DEVICE void load(const T* x, int at, const Block&, int pairs) { first.load(x + at), second.load(x + pairs + at); }
  JAXATOR_DEVICE void store(T* x, int at, const Block&, int pairs) const { first.store(x + at), second.store(x + pairs + at); }
  JAXATOR_DEVICE void turn(u32 cosines, u32 sines, int at, const Block&) {
    float a[kStep], b[kStep];
    first.values(a), second.values(b);
    turn_pairs(a, b, cosines + at * 4, sines + at * 4);
    first.set(a), second.set(b);
  }
};

/// Pairs of neighbours, of two vectors half a turn apart: neighbouring threads then have neighbouring vectors.
template <class T, bool vectors> struct Neighbours {
  using U = Unit<T, true>;
  static constexpr int kStep = U::kElements, kPairs = kStep / 2;
  U first, second;

  JAXATOR_DEVICE static int first_element(const Block& block) { return 2 * block.first; }
  JAXATOR_DEVICE void load(const T* x, int at, const Block& block, int) { first.load(x + at), second.load(x + block.pairs + at); }
  JAXATOR_DEVICE void store(T* x, int at, const Block& block, int) const {
    first.store(x + at), second.store(x + block.pairs + at);
  }
  JAXATOR_DEVICE void turn(u32 cosines, u32 sines, int at, const Block& block) {
    turn_one(first, cosines + at * 2, sines + at * 2);
    const u32 second_at = static_cast<u32>(block.pairs + at) * 2;
    turn_one(second, cosines + second_at, sines + second_at);
  }

  JAXATOR_DEVICE static void turn_one(U& unit, u32 cosines, u32 sines) {
    float v[kStep], a[kPairs], b[kPairs];
    unit.values(v);
#pragma unroll
    for (int i = 0; i < kPairs; i++) a[i] = v[2 * i], b[i] = v[2 * i + 1];
    turn_pairs(a, b, cosines, sines);
#pragma unroll
    for (int i = 0; i < kPairs; i++) v[2 * i] = a[i], v[2 * i + 1] = b[i];
    unit.set(v);
  }
};

/// One pair of neighbours.
template <class T> struct Neighbours<T, false> {
  using U = Unit<T, false>;
  static constexpr int kStep = 1;
  U first, second;

  JAXATOR_DEVICE static int first_element(const Block& block) { return 2 * block.first; }
  JAXATOR_DEVICE void load(const T* x, int at, const Block&, int) { first.load(x + 2 * at), second.load(x + 2 * at + 1); }
  JAXATOR_DEVICE void store(T* x, int at, const Block&, int) const { first.store(x + 2 * at), second.store(x + 2 * at + 1); }
  JAXATOR_DEVICE void turn(u32 cosines, u32 sines, int at, const Block&) {
    float a[1], b[1];
    first.values(a), second.values(b);
    turn_pairs(a, b, cosines + at * 4, sines + at * 4);
    first.set(a), second.set(b);
  }
};

/// One unit of a head, in kRopeRows rows.
template <class T, class Piece> struct Batch {
  const Rope& p;
  const Block& block;
  Piece pieces[kRopeRows];

  JAXATOR_DEVICE Batch(const Rope& p, const Block& block) : p(p), block(block) {}

  JAXATOR_DEVICE u32 row_in_block(int k) const { return k * threads_z() + thread_z(); }
  JAXATOR_DEVICE bool has_row(int k) const { return block.row + row_in_block(k) < p.rows; }
  JAXATOR_DEVICE i64 start(int k, int head) const {
    return ((block.row + row_in_block(k)) * p.heads + head) * p.pairs * 2 + Piece::first_element(block);
  }

  JAXATOR_DEVICE void load(int head, int at) {
#pragma unroll
    for (int k = 0; k < kRopeRows; k++)
      if (has_row(k)) pieces[k].load(static_cast<const T*>(p.x) + start(k, head), at, block, p.pairs);
  }

  JAXATOR_DEVICE void turn_and_store(int head, int at) {
#pragma unroll
    for (int k = 0; k < kRopeRows; k++) {
      if (!has_row(k)) continue;
      const u32 row = row_in_block(k) * block.pairs * 4;
      pieces[k].turn(block.cosines + row, block.sines + row, at, block);
      pieces[k].store(static_cast<T*>(p.y) + start(k, head), at, block, p.pairs);
    }
  }
};

template <class T, class Piece> JAXATOR_DEVICE void rotate(const Rope& p) {
  const Block block(p);
  const int first = static_cast<int>(thread_x()) * Piece::kStep, step = static_cast<int>(threads_x()) * Piece::kStep;

  // Every thread has a head to begin with, and elements but perhaps in the last turn.
  const bool idle = first >= block.pairs;
  Batch<T, Piece> batch(p, block);
  int head = static_cast<int>(thread_y()), at = first;
  if (!idle) batch.load(head, at);
  make_angles(p, block);
  block_sync();
  if (idle) return;
#pragma unroll 1
  while (true) {
    batch.turn_and_store(head, at);
    at += step;
    if (at >= block.pairs) at = first, head += static_cast<int>(threads_y());
    if (head >= p.heads) return;
    batch.load(head, at);
  }
}

template <class T, bool vectors> JAXATOR_DEVICE void rope(const Rope& p) {
  if (p.interleaved)
    rotate<T, Neighbours<T, vectors>>(p);
  else
    rotate<T, Halves<T, vectors>>(p);
}

}  // namespace

#define JAXATOR_ENTRIES(suffix, T)                                                               \
  JAXATOR_KERNEL(256, 4) rope_##suffix(const JAXATOR_GRID_CONSTANT Rope p) { rope<T, true>(p); } \
  JAXATOR_KERNEL(256, 4) rope_elements_##suffix(const JAXATOR_GRID_CONSTANT Rope p) { rope<T, false>(p); }
JAXATOR_ENTRIES(f32, float)
JAXATOR_ENTRIES(bf16, Bf16)
JAXATOR_ENTRIES(f16, F16)

}  // namespace jaxator::hopper
