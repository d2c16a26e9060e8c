/// @file
/// What the eight waves of a block have of a tile of 256 x 256 results: two rows of four waves, each 128 x 64 results in blocks
/// of 16 x 16. Products are taken with the operands exchanged, so that a lane gets four neighbouring columns of one row.
#pragma once

#include "src/ops/matmul/cdna_stream.h"
#include "src/tile/cdna/schedule.h"

namespace jaxator::cdna {

inline constexpr int kWaves = 8, kWaveColumns = 4;
inline constexpr int kBlockRows = 8, kBlockColumns = 4;  // of a wave, in blocks of 16
inline constexpr int kRowsOfWave = kBlockRows * 16, kColumnsOfWave = kBlockColumns * 16;

/// Bytes of k in a step: a row of 16-byte reads by lane groups is 64 bytes deep, and LDS has room for two buffers of 2 x 256 rows
/// of 128 bytes on gfx950 (160 KiB), of 64 on gfx942 (64 KiB).
inline constexpr u32 kDepthBytes = kGfx950 ? 128 : 64;
inline constexpr u32 kOperandBytes = kMatmulTile * kDepthBytes;
inline constexpr u32 kBufferBytes = 2 * kOperandBytes;  // a, then b
inline constexpr int kReads = kDepthBytes / 64;         // of 16 bytes a lane for a row of a tile

/// Where a thread is.
struct Place {
  u32 lane, wave;   // wave is uniform
  u32 row, column;  // of the wave's results in the tile, uniform
  JAXATOR_DEVICE Place()
      : lane(cdna::lane()),
        wave(uniform(thread_x() / kWave)),
        row(wave / kWaveColumns * kRowsOfWave),
        column(wave % kWaveColumns * kColumnsOfWave) {}
};

using Results = Accumulator<16>[kBlockRows][kBlockColumns];

/// Calls f.operator()<0>() to f.operator()<N - 1>(): counters that are constants, as instruction immediates need them.
template <int N, int I = 0, class F> JAXATOR_DEVICE void repeat(F&& f) {
  if constexpr (I < N) {
    f.template operator()<I>();
    repeat<N, I + 1>(f);
  }
}

/// The instructions of two kinds, spread evenly: after each of the first kind its part of the second.
template <Issue first, int firsts, Issue second, int seconds> JAXATOR_DEVICE void interleave() {
  repeat<firsts>([]<int i>() __attribute__((always_inline)) {
    issue<first, 1>();
    issue<second, (i + 1) * seconds / firsts - i * seconds / firsts>();
  });
}

struct TileIndex {
  u32 batch, row, column;
  u32 part;  // of the steps along k
};
/// Parts are the slowest, then comes the batch.
JAXATOR_DEVICE TileIndex tile_of_block(u32 block, const MatmulParams& p) {
  const u32 tiles = p.tile_rows * p.tile_columns, matrix = block / tiles;
  const MatmulTile tile = matmul_tile_of(block - matrix * tiles, p.tile_rows, p.tile_columns, p.chunk, p.window);
  if (p.parts == 1) return {matrix, tile.row, tile.column, 0};
  const u32 part = matrix / p.batch;
  return {matrix - part * p.batch, tile.row, tile.column, part};
}

/// Where a lane's sums of one part of a tile lie: 16 bytes for each block of 16 x 16 of its wave.
JAXATOR_DEVICE Buffer partial_sums(const MatmulParams& p, const TileIndex& tile, u32 part) {
  const u64 tiles = u64{p.tile_rows} * p.tile_columns,
            at = (u64{part} * p.batch + tile.batch) * tiles + tile.row * p.tile_columns + tile.column;
  constexpr u32 kElements = kMatmulTile * kMatmulTile;
  return {p.partials + at * kElements, kElements * 4};
}
JAXATOR_DEVICE u32 partial_offset(const Place& place, int i, int j) {
  return (place.wave * (kBlockRows * kBlockColumns) + i * kBlockColumns + j) * 1024 + place.lane * 16;
}

}  // namespace jaxator::cdna
