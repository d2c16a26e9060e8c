/// @file
/// An operand's tiles along k, one a step: where they are in global memory, and how much of each is there.
#pragma once

#include "src/ops/matmul/cdna.h"
#include "src/tile/cdna/buffer.h"
#include "src/tile/cdna/mfma.h"

namespace jaxator::cdna {

/// The direction in which an operand's elements are neighbours: that of k, or that of its rows (m of a, n of b).
enum class Major { k, rows };

/// All of it is uniform. The descriptor's base moves with the steps, so that arrays of any size are reached by 32-bit offsets
/// within a tile, and its length ends with the last element that the tile may have: what lies past the operand reads as zeros.
/// Steps past the last one have no elements at all, so that loops may prefetch without a branch.
template <Major major, u32 kDepthBytes, u32 kElementBytes> class TileStream {
 public:
  static constexpr u32 kDepth = kDepthBytes / kElementBytes;

  /// The rows from `first` on, of `extent`.
  JAXATOR_DEVICE TileStream(const MatmulOperand& operand, u32 batch, u32 first, u32 extent, u32 k, u32 terms)
      : k_(k), left_k_(k), terms_(terms) {
    const u32 rows = extent - first;
    const u64 matrix = reinterpret_cast<u64>(operand.data) + u64{batch} * u64(operand.batch_bytes);
    const u32 last_step = (k - 1) / kDepth;
    if constexpr (major == Major::k) {
      pitch_ = k * kElementBytes;
      base_ = matrix + u64{first} * pitch_;
      rows_bytes_ = ((rows < kMatmulTile ? rows : kMatmulTile) - 1) * pitch_;
      step_ = kDepthBytes;
    } else {
      pitch_ = extent * kElementBytes;
      base_ = matrix + u64{first} * kElementBytes;
      rows_bytes_ = rows * kElementBytes;
      step_ = kDepth * pitch_;
    }
    to_next_term_ = u64(operand.sum_bytes) - u64{last_step} * step_;
  }

  /// To a later step, from the first one.
  JAXATOR_DEVICE void skip(u32 steps, const MatmulOperand& operand) {
    const u32 steps_of_term = (k_ + kDepth - 1) / kDepth, term = steps / steps_of_term, step = steps - term * steps_of_term;
    base_ += u64{term} * u64(operand.sum_bytes) + u64{step} * step_;
    left_k_ -= step * kDepth, terms_ -= term;
  }

  /// Bytes between rows of the memory: rows of the operand, or of k.
  JAXATOR_DEVICE u32 pitch() const { return pitch_; }
  /// Bytes of k that this step has, if k is the fast direction: at most those of a tile count.
  JAXATOR_DEVICE u32 k_bytes() const { return left_k_ * kElementBytes; }

  JAXATOR_DEVICE Buffer tile() const {
    u32 bytes;
    if constexpr (major == Major::k)
      bytes = rows_bytes_ + left_k_ * kElementBytes;
    else
      bytes = ((left_k_ < kDepth ? left_k_ : kDepth) - 1) * pitch_ + rows_bytes_;
    return {reinterpret_cast<const void JAXATOR_GLOBAL*>(base_), terms_ > 0 ? bytes : 0};
  }

  /// What follows from the step before is computed here and not later: the compiler would put it where it is used first.
  JAXATOR_DEVICE void settle() { asm volatile("" : "+s"(base_), "+s"(left_k_), "+s"(terms_)); }

  JAXATOR_DEVICE void advance() {
    const bool last = left_k_ <= kDepth;
    base_ += last ? to_next_term_ : u64{step_};
    left_k_ = last ? k_ : left_k_ - kDepth;
    terms_ -= last && terms_ > 0 ? 1 : 0;
  }

 private:
  u64 base_, to_next_term_;
  u32 pitch_, rows_bytes_, step_;
  u32 k_, left_k_, terms_;  // left_k_, terms_: from this step on
};

}  // namespace jaxator::cdna
