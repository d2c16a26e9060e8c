/// @file
/// Rotary embedding on CDNA: bound by memory. The elements of a block's first heads are on their way while its angles are made.
#include "src/ops/rope/cdna_angles.h"
#include "src/tile/cdna/unit.h"

namespace jaxator::cdna {
namespace {

/// cos and sin of n pairs that follow each other in the tables.
template <int n> struct Angles {
  float cosine[n], sine[n];

  JAXATOR_DEVICE Angles(const RopeBlock& block, u32 index) {
    load_table(index, cosine), load_table(block.rows * block.pairs + index, sine);
  }
  JAXATOR_DEVICE void turn(int i, float& a, float& b) const {
    const float turned = a * cosine[i] - b * sine[i];
    b = b * cosine[i] + a * sine[i];
    a = turned;
  }
};

/// What a thread turns at once: `at` counts elements of the first halves, as offsets do. `table`: of a row.
///
/// Pairs half a head apart.
template <class T, bool vectors> struct Halves {
  using U = Unit<T, vectors>;
  static constexpr u32 kStep = U::kElements, kRead = kStep < 4 ? kStep : 4;
  U first, second;

  JAXATOR_DEVICE static u32 first_element(const RopeBlock& block) { return block.first; }
  JAXATOR_DEVICE static u32 first_at(u32 at) { return at; }
  JAXATOR_DEVICE static u32 second_at(u32 at, const RopeBlock&, u32 pairs) { return pairs + at; }
  /// A thread reads the angles of eight pairs in two parts. All first parts are in front of all second ones, so that neighbouring
  /// threads read neighbouring 16 bytes, without bank conflicts.
  JAXATOR_DEVICE static u32 pair_at(u32 i, const RopeBlock& block) {
    if constexpr (kStep <= 4) return i;
    const u32 part = i >= block.pairs / 2, in_part = i - part * (block.pairs / 2);
    return in_part / 4 * 8 + part * 4 + in_part % 4;
  }
  JAXATOR_DEVICE void turn(u32 table, u32 at, const RopeBlock& block) {
    float a[kStep], b[kStep];
    first.values(a), second.values(b);
#pragma unroll
    for (u32 i = 0; i < kStep; i += kRead) {
      const Angles<kRead> angles(block, table + (kStep <= 4 ? at : at / 2 + i / 4 * (block.pairs / 2)));
#pragma unroll
      for (u32 j = 0; j < kRead; j++) angles.turn(j, a[i + j], b[i + j]);
    }
    first.set(a), second.set(b);
  }
};

/// Pairs of neighbours, of two vectors half a turn apart: neighbouring threads then have neighbouring vectors.
template <class T, bool vectors> struct Neighbours {
  using U = Unit<T, true>;
  static constexpr u32 kStep = U::kElements, kPairs = kStep / 2;
  U first, second;

  JAXATOR_DEVICE static u32 first_element(const RopeBlock& block) { return 2 * block.first; }
  JAXATOR_DEVICE static u32 first_at(u32 at) { return at; }
  JAXATOR_DEVICE static u32 second_at(u32 at, const RopeBlock& block, u32) { return block.pairs + at; }
  JAXATOR_DEVICE static u32 pair_at(u32 i, const RopeBlock&) { return i; }
  JAXATOR_DEVICE void turn(u32 table, u32 at, const RopeBlock& block) {
    turn_one(first, block, table + at / 2);
    turn_one(second, block, table + (block.pairs + at) / 2);
  }

  JAXATOR_DEVICE static void turn_one(U& unit, const RopeBlock& block, u32 index) {
    const Angles<kPairs> angles(block, index);
    float v[kStep];
    unit.values(v);
#pragma unroll
    for (u32 i = 0; i < kPairs; i++) angles.turn(i, v[2 * i], v[2 * i + 1]);
    unit.set(v);
  }
};

/// One pair of neighbours.
template <class T> struct Neighbours<T, false> {
  using U = Unit<T, false>;
  static constexpr u32 kStep = 1;
  U first, second;

  JAXATOR_DEVICE static u32 first_element(const RopeBlock& block) { return 2 * block.first; }
  JAXATOR_DEVICE static u32 first_at(u32 at) { return 2 * at; }
  JAXATOR_DEVICE static u32 second_at(u32 at, const RopeBlock&, u32) { return 2 * at + 1; }
  JAXATOR_DEVICE static u32 pair_at(u32 i, const RopeBlock&) { return i; }
  JAXATOR_DEVICE void turn(u32 table, u32 at, const RopeBlock& block) {
    float a[1], b[1];
    first.values(a), second.values(b);
    Angles<1>(block, table + at).turn(0, a[0], b[0]);
    first.set(a), second.set(b);
  }
};

/// One unit of a head, in kRopeRows rows. Rows past the last one, heads and units past the end are nowhere: no branch is needed.
template <class T, class Piece> struct Batch {
  const Rope& p;
  const RopeBlock& block;
  const Span x, y;  // from the block's first row on
  Piece pieces[kRopeRows];

  JAXATOR_DEVICE Batch(const Rope& p, const RopeBlock& block)
      : p(p), block(block), x(part_of<T>(p.x, start(p, block))), y(part_of<T>(p.y, start(p, block))) {}

  JAXATOR_DEVICE static i64 start(const Rope& p, const RopeBlock& block) { return block.row * p.heads * p.pairs * 2; }
  JAXATOR_DEVICE static u32 row_in_block(u32 k) { return k * threads_z() + thread_z(); }

  /// Offset of element `at` of a head's turn.
  JAXATOR_DEVICE u32 offset(u32 k, u32 head, u32 at, bool present) const {
    const u32 row = row_in_block(k);
    const u32 offset = ((row * p.heads + head) * p.pairs * 2 + Piece::first_element(block) + at) * u32{sizeof(T)};
    return (present & (head < p.heads) & (row < block.present_rows)) ? offset : Span::kNowhere;
  }

  JAXATOR_DEVICE void load(u32 head, u32 at) {
    const bool present = at < block.pairs;
#pragma unroll
    for (u32 k = 0; k < kRopeRows; k++) {
      pieces[k].first.load(x, offset(k, head, Piece::first_at(at), present));
      pieces[k].second.load(x, offset(k, head, Piece::second_at(at, block, p.pairs), present));
    }
  }

  JAXATOR_DEVICE void turn_and_store(u32 head, u32 at) {
    const bool present = at < block.pairs;
#pragma unroll
    for (u32 k = 0; k < kRopeRows; k++) {
      pieces[k].turn(row_in_block(k) * block.pairs, present ? at : 0, block);
      pieces[k].first.store(y, offset(k, head, Piece::first_at(at), present));
      pieces[k].second.store(y, offset(k, head, Piece::second_at(at, block, p.pairs), present));
    }
  }
};

template <class T, class Piece> JAXATOR_DEVICE void rotate(const Rope& p) {
  const RopeBlock block(p);
  Batch<T, Piece> batch(p, block);
  const u32 first = thread_x() * Piece::kStep, step = threads_x() * Piece::kStep;
  u32 head = 0, at = 0;  // of the block's first thread
  const u32 threads = threads_x() * threads_y() * threads_z();
  const u32 thread = (thread_z() * threads_y() + thread_y()) * threads_x() + thread_x();
  const OwnPositions positions(p, block, thread, threads);
  batch.load(thread_y(), first);
  make_angles(p, block, thread, threads, positions, [&](u32 i) { return Piece::pair_at(i, block); });
  block_sync();
#pragma unroll 1
  while (true) {
    batch.turn_and_store(head + thread_y(), at + first);
    at += step;
    if (at >= block.pairs) at = 0, head += threads_y();
    if (head >= p.heads) return;
    batch.load(head + thread_y(), at + first);
  }
}

template <class T, bool vectors> JAXATOR_DEVICE void rope(const Rope& p) {
  if (p.interleaved)
    rotate<T, Neighbours<T, vectors>>(p);
  else
    rotate<T, Halves<T, vectors>>(p);
}

}  // namespace

#define JAXATOR_ENTRIES(suffix, T)                                \
  JAXATOR_KERNEL(256) rope_##suffix(Rope p) { rope<T, true>(p); } \
  JAXATOR_KERNEL(256) rope_elements_##suffix(Rope p) { rope<T, false>(p); }
JAXATOR_ENTRIES(f32, float)
JAXATOR_ENTRIES(bf16, Bf16)
JAXATOR_ENTRIES(f16, F16)

}  // namespace jaxator::cdna
