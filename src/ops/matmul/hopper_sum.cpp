/// @file
/// Finishes tiles whose steps were shared by several clusters: adds their sums up in order, then what follows the product. A
/// block of two warpgroups has one chunk of 64 columns of what each warpgroup of a tile had.
#include "src/ops/matmul/hopper_epilogue.h"

namespace jaxator::hopper {
namespace {

/// The sums of eight groups of eight columns from `group` on, of those that a warpgroup has.
JAXATOR_DEVICE void sum_parts(float (&x)[32], const MatmulParams& p, u32 unit, u32 units, int group, int groups, u32 thread) {
  constexpr i64 kStride = kGroups * kGroupThreads * 4;
#pragma unroll
  for (int i = 0; i < 32; i++) x[i] = 0;
#pragma unroll 1
  for (u32 part = 0; part < static_cast<u32>(p.parts); part++) {
    const float* from = p.partials + (static_cast<i64>(part * units + unit) * groups + group) * kStride + thread * 4;
    Vector v[8];
#pragma unroll
    for (int i = 0; i < 8; i++) {
      v[i] = {};
      if (group + i < groups) v[i] = load_once(from + i * kStride);
    }
#pragma unroll
    for (int i = 0; i < 32; i++) x[i] += bits_as<float>(v[i / 4].word[i % 4]);
  }
}

template <class T> JAXATOR_DEVICE void sum_tile(const MatmulParams& p, int tile_rows, int tile_columns) {
  const u32 thread = thread_x(), group = thread / kGroupThreads, pair = static_cast<u32>(p.pair), unit = block_x();
  TilePlace tile = place_of(p, unit / pair, unit % pair, tile_rows, tile_columns);
  const int columns = tile_rows == 128 ? tile_columns : tile_columns / 2, first = static_cast<int>(block_y()) * 64;
  tile.row += tile_rows == 128 ? static_cast<int>(group) * 64 : 0;
  tile.column += (tile_rows == 128 ? 0 : static_cast<int>(group) * columns) + first;
  float x[32];
  sum_parts(x, p, unit, cluster_tiles(p) * pair, first / 8, columns / 8, thread);
  const TensorMap& none = *reinterpret_cast<const TensorMap*>(&p);  // p.store_maps is 0
  Staging staging(shared_base(), group, thread % kGroupThreads);
  finish_chunk<T>(x, p, {tile.row, tile.column, tile.batch, columns - first}, {none, none}, staging);
}

}  // namespace

#define JAXATOR_MATMUL_SUM(name, T)                                                                          \
  JAXATOR_KERNEL(256, 2) name(const JAXATOR_GRID_CONSTANT MatmulParams p, int tile_rows, int tile_columns) { \
    sum_tile<T>(p, tile_rows, tile_columns);                                                                 \
  }
JAXATOR_MATMUL_SUM(matmul_sum_tf32, Tf32)
JAXATOR_MATMUL_SUM(matmul_sum_bf16, Bf16)
JAXATOR_MATMUL_SUM(matmul_sum_f16, F16)

}  // namespace jaxator::hopper
