/// @file
/// Mean and variance of a row whose pieces the waves of a block have in turns, with one barrier.
///
/// A wave takes the mean of its own columns, then sums differences from it: those lose nothing, however large the mean is. The
/// waves' means and variances, put together by the formula of Chan, Golub and LeVeque (1979), give the row's.
#pragma once

#include "src/tile/cdna/row.h"

namespace jaxator::cdna {

/// What a row is scaled by: standardised x = (x - mean) * scale + shift. `shift` takes back the rounding of the float32 mean.
struct Moments {
  float mean, scale, shift;

  JAXATOR_DEVICE float standardised(float x) const { return (x - mean) * scale + shift; }
};

/// How many columns the waves have, where waves take pieces of `piece` columns in turns. Each has at least one.
struct Shares {
  u32 wave, waves;
  float inverse_count;  // of this wave's columns
  float lane_share;     // of wave lane(): its share of the row's columns; 0 where there is no such wave

  JAXATOR_DEVICE Shares(u32 columns, u32 piece, u32 wave, u32 waves, float inverse_columns)
      : wave(wave), waves(waves), inverse_count(inverse_columns), lane_share(0) {
    if (waves == 1) return;
    const u32 turns = columns / (piece * waves), rest = columns - turns * piece * waves;
    const auto count = [&](u32 w) {
      const u32 begin = w * piece, left = rest < begin ? 0 : rest - begin;
      return static_cast<float>(turns * piece + (left < piece ? left : piece));
    };
    inverse_count = 1.0f / count(wave);
    lane_share = lane() < waves ? count(lane()) * inverse_columns : 0.0f;
  }
};

/// Of a wave's columns.
struct WaveMoments {
  float pivot, off;  // the mean is their sum
  float variance;
};

JAXATOR_DEVICE float sum_of(float x) { return x; }
JAXATOR_DEVICE float sum_of(Pair x) { return x.x + x.y; }

/// `for_differences(origin, body)` calls body with the differences of the thread's columns from the origin, each a T: a float or
/// a pair. `first`: any element of the row, so that equal numbers have no variance.
template <class T, class ForDifferences>
JAXATOR_DEVICE WaveMoments moments_of_wave(float first, const Shares& shares, ForDifferences&& for_differences) {
  T sum = 0, off_sum = 0, squares = 0;
  for_differences(first, [&](T d) { sum += d; });
  const float pivot = first + wave_sum(sum_of(sum)) * shares.inverse_count;
  for_differences(pivot, [&](T d) { off_sum += d, squares += d * d; });
  const float off = wave_sum(sum_of(off_sum)) * shares.inverse_count;
  return {pivot, off, wave_sum(sum_of(squares)) * shares.inverse_count - off * off};
}

/// The row's moments from those of its waves. `sums`: none, or two of the wave's columns, of g and of g times the differences
/// from the wave's pivot; what the row's threads get are means over the row, the second of g times the differences from its mean.
template <int N> class RowMoments {
 public:
  JAXATOR_DEVICE Moments operator()(const WaveMoments& wave, float* sums, const Shares& shares, float inverse_columns,
                                    float epsilon) {
    float all[3 + N] = {wave.pivot, wave.off, wave.variance};
#pragma unroll
    for (int i = 0; i < N; i++) all[3 + i] = sums[i] * inverse_columns;
    float mean, rest, variance;
    if (shares.waves == 1) {
      mean = wave.pivot + wave.off;
      rest = (wave.pivot - mean) + wave.off;
      variance = wave.variance;
      if constexpr (N == 2) sums[0] = all[3], sums[1] = all[4] + all[3] * ((wave.pivot - mean) - rest);
    } else {
      gather_(all, shares.wave, shares.waves);
      const float share = shares.lane_share, first = broadcast(all[0], 0);
      mean = first + sum_of_first_lanes(share * ((all[0] - first) + all[1]));
      const float toward = all[0] - mean, difference = toward + all[1];
      rest = sum_of_first_lanes(share * difference);
      variance = sum_of_first_lanes(share * (all[2] + (difference - rest) * (difference - rest)));
      if constexpr (N == 2) {
        const bool present = lane() < shares.waves;
        sums[0] = sum_of_first_lanes(present ? all[3] : 0.0f);
        sums[1] = sum_of_first_lanes(present ? all[4] + all[3] * (toward - rest) : 0.0f);
      }
    }
    const float scale = reciprocal_sqrt((variance < 0 ? 0.0f : variance) + epsilon);
    return {mean, scale, -rest * scale};
  }

 private:
  BlockGather<3 + N> gather_;
};

/// Calls body(i, e, difference) for elements e and e + 1 of each vector i of the thread's part of a row of `columns`: zeros past
/// its end.
template <class T, int Vectors, class Body>
JAXATOR_DEVICE void differences(const RowPiece<T, Vectors>& x, u32 columns, u32 thread, u32 threads, float origin, Body&& body) {
  using Piece = RowPiece<T, Vectors>;
#pragma unroll
  for (int i = 0; i < Vectors; i++) {
    const float from = Piece::column(i, thread, threads) < columns ? origin : 0.0f;  // past the end x is 0
    float v[Piece::kElements];
    x.values(i, v);
#pragma unroll
    for (int e = 0; e < Piece::kElements; e += 2) body(i, e, Pair{v[e], v[e + 1]} - from);
  }
}

}  // namespace jaxator::cdna
