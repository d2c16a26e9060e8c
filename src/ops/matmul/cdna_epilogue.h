/// @file
/// From a wave's sums to the result: scales, bias, activation, residual, one rounding.
#pragma once

#include "src/ops/matmul/cdna_activation.h"
#include "src/ops/matmul/cdna_tile.h"

namespace jaxator::cdna {

/// Four neighbouring columns of one row of an array that has the result's shape, from the first row of the wave on.
class ResultRows {
 public:
  JAXATOR_DEVICE ResultRows(const void JAXATOR_GLOBAL* array, u32 element_bytes, u64 first_row, u32 rows, u32 columns)
      : columns_(columns),
        wanted_(array != nullptr),
        buffer_(static_cast<const u8 JAXATOR_GLOBAL*>(array) + first_row * columns * element_bytes,
                wanted_ ? u64{rows} * columns * element_bytes : 0) {}

  JAXATOR_DEVICE bool wanted() const { return wanted_; }

  template <class T> JAXATOR_DEVICE void load(u32 row, u32 column, float (&values)[4]) const {
    if (columns_ % 4 == 0) {
      const Lanes2 v = buffer_.template load<Lanes2>(at<sizeof(T)>(row, column));
#pragma unroll
      for (int e = 0; e < 4; e++) values[e] = to_float(T{static_cast<u16>(v[e / 2] >> 16 * (e % 2))});
    } else {
#pragma unroll
      for (int e = 0; e < 4; e++) values[e] = to_float(T{buffer_.template load<u16>(at<sizeof(T)>(row, column + e))});
    }
  }

  template <class T> JAXATOR_DEVICE void store(u32 row, u32 column, const float (&values)[4]) const {
    if (columns_ % 4 == 0) {
      const u32 offset = at<sizeof(T)>(row, column);
      if constexpr (sizeof(T) == 4)
        buffer_.store(offset, Lanes<float, 4>{values[0], values[1], values[2], values[3]});
      else
        buffer_.store(offset, Lanes2{pack2<T>(values[0], values[1]), pack2<T>(values[2], values[3])});
    } else {
#pragma unroll
      for (int e = 0; e < 4; e++) buffer_.store(at<sizeof(T)>(row, column + e), from_float<T>(values[e]));
    }
  }

 private:
  /// Columns past the end are nowhere; rows past it are behind the buffer.
  template <u32 bytes> JAXATOR_DEVICE u32 at(u32 row, u32 column) const {
    return column < columns_ ? (row * columns_ + column) * bytes : kNowhere;
  }
  u32 columns_;
  bool wanted_;
  Buffer buffer_;
};

/// Where four columns of a wave's 16 rows lie in LDS.
constexpr JAXATOR_DEVICE u32 exchange_offset(u32 row, u32 four) { return row * (kColumnsOfWave * 4) + (four ^ row % 8) * 16; }
static_assert(lds_conflicts(16, layout::Direction::write, [](u32 l) { return exchange_offset(l % 16, l / 16); }) == 0);
static_assert(lds_conflicts(16, layout::Direction::read, [](u32 l) { return exchange_offset(l / 16, l % 16); }) == 0);

/// Sums lie in registers by blocks of 16 x 16, of which a lane has four columns of one row. By way of LDS, 16 rows of all of the
/// wave's 64 columns at a time, a lane gets four columns of rows that are in memory beside those of other lanes: 128 bytes of a
/// row in one store of 16-bit elements, where the blocks have 32.
class Exchange {
 public:
  static constexpr u32 kBytes = 16 * kColumnsOfWave * 4;

  JAXATOR_DEVICE Exchange(Lds memory, const Place& place) : memory_(memory), wave_(place.wave * kBytes), lane_(place.lane) {}

  JAXATOR_DEVICE void put(const Accumulator<16> (&blocks)[kBlockColumns]) const {
#pragma unroll
    for (int j = 0; j < kBlockColumns; j++)
      lds_store(memory_, wave_ + exchange_offset(lane_ % 16, 4 * j + lane_ / 16), blocks[j]);
  }
  /// Row 4 * turn + lane / 16, columns from 4 * (lane % 16) on.
  JAXATOR_DEVICE Accumulator<16> get(u32 turn) const {
    return lds_load<Accumulator<16>>(memory_, wave_ + exchange_offset(4 * turn + lane_ / 16, lane_ % 16));
  }

 private:
  Lds memory_;
  u32 wave_, lane_;
};

/// Factors of rows or columns of one matrix of the batch.
class ScalesOfMatrix {
 public:
  JAXATOR_DEVICE ScalesOfMatrix(const MatmulScales& scales, u32 batch, u32 count)
      : stride_(scales.stride * 4),
        wanted_(scales.data != nullptr),
        buffer_(reinterpret_cast<const u8 JAXATOR_GLOBAL*>(scales.data) + i64{batch} * scales.batch_bytes,
                wanted_ ? u64{scales.stride ? count : 1} * 4 : 0) {}
  JAXATOR_DEVICE float of(u32 i) const { return wanted_ ? buffer_.load<float>(i * stride_) : 1.0f; }

 private:
  u32 stride_;
  bool wanted_;
  Buffer buffer_;
};

/// What a lane multiplies and adds to its four columns of every row.
struct ColumnTerms {
  float bias[4], scale[4];

  JAXATOR_DEVICE ColumnTerms(const MatmulParams& p, float factor, u32 batch, u32 column) {
    const u64 of_batch = u64{p.bias_batched ? batch : 0} * p.n;
    const Buffer biases(p.bias + of_batch, p.bias != nullptr ? u64{p.n} * 4 : 0);
    const ScalesOfMatrix scales(p.column_scales, batch, p.n);
#pragma unroll
    for (int e = 0; e < 4; e++) {
      bias[e] = biases.load<float>((column + e) * 4);
      scale[e] = scales.of(column + e) * factor;
    }
  }
};

/// Leaves the wave's sums of a part of k to the kernel matmul_sum.
JAXATOR_DEVICE void leave_part(const Results& sums, const Place& place, const TileIndex& tile, const MatmulParams& p) {
  const Buffer partials = partial_sums(p, tile, tile.part);
#pragma unroll
  for (int i = 0; i < kBlockRows; i++)
#pragma unroll
    for (int j = 0; j < kBlockColumns; j++) partials.store(partial_offset(place, i, j), sums[i][j]);
}

/// Writes the wave's results from factor * sums. Uses LDS from `memory` on; the block is done with what was there.
template <class T> JAXATOR_DEVICE void finish(const Results& sums, float factor, Lds memory, const Place& place,
                                              const TileIndex& tile, const MatmulParams& p) {
  const u32 first = tile.row * kMatmulTile + place.row, column = tile.column * kMatmulTile + place.column + place.lane % 16 * 4;
  if (first >= p.m) return;
  const u32 rows = p.m - first < kRowsOfWave ? p.m - first : kRowsOfWave;
  const u64 row_of_batch = u64{tile.batch} * p.m + first;
  const ResultRows out(p.out, p.out_f32 ? 4 : 2, row_of_batch, rows, p.n), z_out(p.preactivation, 2, row_of_batch, rows, p.n),
      residuals(p.residual, 2, row_of_batch, rows, p.n);
  const ScalesOfMatrix row_scales(p.row_scales, tile.batch, p.m);
  const ColumnTerms terms(p, factor, tile.batch, column);
  const Exchange exchange(memory, place);

#pragma unroll 1
  for (u32 i = 0; i < kBlockRows; i++) {
    float residual[4][4] = {};
    float scale[4];
#pragma unroll
    for (u32 turn = 0; turn < 4; turn++) {
      const u32 row = 16 * i + 4 * turn + place.lane / 16;
      if (residuals.wanted()) residuals.load<T>(row, column, residual[turn]);
      scale[turn] = row_scales.of(first + row);
    }
    repeat<kBlockRows>([&]<int row>() __attribute__((always_inline)) {
      if (i == row) exchange.put(sums[row]);
    });
#pragma unroll
    for (u32 turn = 0; turn < 4; turn++) {
      const u32 row = 16 * i + 4 * turn + place.lane / 16;
      const Accumulator<16> sum = exchange.get(turn);
      float y[4];
#pragma unroll
      for (int e = 0; e < 4; e++) y[e] = sum[e] * scale[turn] * terms.scale[e] + terms.bias[e];
      if (z_out.wanted()) z_out.store<T>(row, column, y);
      activate(y, p.activation);
      if (residuals.wanted())
#pragma unroll
        for (int e = 0; e < 4; e++) y[e] += residual[turn][e];
      if (p.out_f32)
        out.store<float>(row, column, y);
      else
        out.store<T>(row, column, y);
    }
  }
}

}  // namespace jaxator::cdna
