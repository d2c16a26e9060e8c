/// @file
/// What was decided for one matmul on a CPU.
#pragma once

#include <cstdint>

#include "jaxator/cpu.h"
#include "jaxator/matmul.h"

namespace jaxator {

struct MatmulConfig {
  bool bf16_dot = false;  // else float32 FMA on widened elements
  int lanes = 16;         // 32-bit lanes of a vector

  // A task is a block of the result; it packs its part of both operands, `depth` elements of k at a time.
  int64_t rows = 128, columns = 256, depth = 256;

  int group() const { return bf16_dot ? 2 : 1; }  // elements of a 32-bit word
  int tile_rows() const { return lanes / 2; }     // of a register tile
  int tile_columns() const { return lanes * 2; }

  /// 32-bit words of one task's scratch: packed rows of a, packed columns of b, sums.
  int64_t words_a() const { return rows * (depth / group()); }
  int64_t words_b() const { return columns * (depth / group()); }
  int64_t slot_bytes() const { return (words_a() + words_b() + rows * columns) * 4; }
};

/// For a simplified desc. Throws UnsupportedError for a route that the type or the instruction set lacks.
MatmulConfig pick_config(const MatmulDesc& desc, const CpuFeatures& cpu, CpuIsa isa);

/// Blocks of the result.
inline int64_t matmul_tasks(const MatmulDesc& desc, const MatmulConfig& config) {
  const auto blocks = [](int64_t size, int64_t block) { return (size + block - 1) / block; };
  return desc.batch * blocks(desc.m, config.rows) * blocks(desc.n, config.columns);
}

}  // namespace jaxator
