/// @file
/// Rows of several arrays on their way through a ring of buffers in shared memory. The copy engine keeps them coming while
/// threads reduce and scale the rows before: prefetching into registers instead leaves too few bytes in flight (0.63 of a copy on
/// 16384x8192 bfloat16 rms_norm backward, 0.95 with the ring).
#pragma once

#include "src/tile/hopper/barrier.h"
#include "src/tile/hopper/bulk.h"
#include "src/tile/hopper/row.h"

namespace jaxator::hopper {

/// A team of threads has a row at a time: the block, or where rows are short each warp of it (threads_x() threads, threads_y()
/// teams). Team t of the grid takes rows t, t + teams, ...
///
/// Shared memory of the block, from `shared` on: barriers, then a ring for each team.
template <class T> class RowStream {
 public:
  /// Rows of `columns` elements, a multiple of 16 bytes, at addresses that are; null arrays are left out.
  JAXATOR_DEVICE RowStream(u32 shared, const void* first, const void* second, const void* third, i64 rows, int columns,
                           int stages)
      : arrays_{static_cast<const T*>(first), static_cast<const T*>(second), static_cast<const T*>(third)},
        rows_(rows),
        columns_(columns),
        stages_(static_cast<u32>(stages)),
        barriers_(shared + thread_y() * kBarrierBytes),
        ring_(shared + threads_y() * kBarrierBytes + thread_y() * (stages * stage_bytes())),
        row_(i64{block_x()} * threads_y() + thread_y()) {
    if (thread_x() == 0) {
      for (u32 s = 0; s < stages_; s++) barrier_init(barriers_ + s * 8, 1);
      fence_barrier_init();
      for (u32 s = 0; s < stages_; s++) fetch(row_ + s * step(), s);
    }
    block_sync();
  }

  JAXATOR_DEVICE bool has_row() const { return row_ < rows_; }
  JAXATOR_DEVICE i64 row() const { return row_; }
  JAXATOR_DEVICE void wait() const { barrier_wait(barriers_ + stage_ * 8, parity_); }
  JAXATOR_DEVICE Vector load(int array, int column) const {
    return load_shared_vector(ring_ + stage_ * stage_bytes() + static_cast<u32>(array * columns_ + column) * sizeof(T));
  }

  /// Once for each row, when every thread of the team has left the row before: after a reduction of this one.
  JAXATOR_DEVICE void refill() const {
    if (thread_x() == 0 && row_ >= step()) fetch(row_ + (stages_ - 1) * step(), stage_ == 0 ? stages_ - 1 : stage_ - 1);
  }

  JAXATOR_DEVICE void next() {
    row_ += step();
    if (++stage_ == stages_) stage_ = 0, parity_ ^= 1;
  }

 private:
  static constexpr u32 kBarrierBytes = 64;  // of a team: up to 8 stages

  JAXATOR_DEVICE i64 step() const { return i64{blocks_x()} * threads_y(); }
  JAXATOR_DEVICE u32 row_bytes() const { return static_cast<u32>(columns_) * sizeof(T); }
  JAXATOR_DEVICE u32 stage_bytes() const { return row_bytes() * (arrays_[2] != nullptr ? 3 : 2); }

  JAXATOR_DEVICE void fetch(i64 row, u32 stage) const {
    if (row >= rows_) return;
    const u32 barrier = barriers_ + stage * 8, to = ring_ + stage * stage_bytes();
    barrier_expect(barrier, stage_bytes());
#pragma unroll
    for (int a = 0; a < 3; a++)
      if (a < 2 || arrays_[2] != nullptr) bulk_load(to + a * row_bytes(), arrays_[a] + row * columns_, row_bytes(), barrier);
  }

  const T* const arrays_[3];
  const i64 rows_;
  const int columns_;
  const u32 stages_, barriers_, ring_;
  i64 row_;
  u32 stage_ = 0, parity_ = 0;
};

/// partials[block, c] = the sum over the block's teams of what their threads have of a parameter's gradient, in the layout of
/// RowPiece. Every thread of the block, after its last row; shared: threads_y() * columns floats.
template <class T, int Vectors>
JAXATOR_DEVICE void store_partials(const float (&sums)[Vectors][kVectorElements<T>], float* partials, int columns, u32 shared) {
  constexpr int kElements = kVectorElements<T>;
  const u32 team = thread_y(), teams = threads_y();
  float* to = partials + i64{block_x()} * columns;
  if (teams > 1) block_sync();
#pragma unroll
  for (int i = 0; i < Vectors; i++) {
    const int c = RowPiece<T, Vectors>::column(i, thread_x(), threads_x());
    if (c >= columns) continue;
#pragma unroll
    for (int e = 0; e < kElements; e += 4) {
      const Vector four = pack<float>({sums[i][e], sums[i][e + 1], sums[i][e + 2], sums[i][e + 3]});
      if (teams > 1)
        store_shared(shared + static_cast<u32>(team * columns + c + e) * 4, four);
      else
        store(to + c + e, four);
    }
  }
  if (teams == 1) return;
  block_sync();
  for (int c = static_cast<int>(team * threads_x() + thread_x()); c < columns; c += static_cast<int>(teams * threads_x())) {
    float sum = 0;
    for (u32 t = 0; t < teams; t++) sum += load_shared(shared + static_cast<u32>(t * columns + c) * 4);
    to[c] = sum;
  }
}

}  // namespace jaxator::hopper
