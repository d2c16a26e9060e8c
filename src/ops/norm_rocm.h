/// @file
/// How a normalisation over the last axis is cut up on CDNA: the same for every norm, whose passes move the same bytes. Decided
/// by the shape and the addresses alone, so results do not depend on the device at hand.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "src/ops/rocm_kernels.h"

namespace jaxator {

struct NormRocmConfig {
  int vectors = 0;         // of 16 bytes that a thread has of a row; 0: element by element, for any length and alignment
  int threads = 64;        // of one row; whole waves
  int rows_per_block = 1;  // four where a wave has a row: the block's barrier belongs to one row
  int64_t blocks = 1;

  /// Rows that are under way at once.
  int64_t groups() const { return blocks * rows_per_block; }
  /// Partial sums of a parameter's gradient: blocks add up their rows', but not element by element.
  int64_t partials() const { return vectors > 0 ? blocks : groups(); }
  rocm::Geometry geometry() const { return {.grid = {blocks, 1, 1}, .block = {threads, rows_per_block, 1}}; }
};

namespace norm_rocm {

/// Offsets in a row are counted in 32 bits, in bytes.
inline void check_columns(int64_t columns) {
  constexpr int64_t kMost = (int64_t{1} << 30) - 1;
  if (columns > kMost) throw Error("columns=" + std::to_string(columns) + ": must be at most " + std::to_string(kMost));
}

inline int64_t vector_elements(DType type) { return 16 / size_of(type); }

/// Threads of a row, `vectors` for each; whole waves.
inline NormRocmConfig threads_for(DType type, int64_t columns, int vectors, int most_threads) {
  const int64_t per_thread = vectors > 0 ? vectors * vector_elements(type) : 8;
  const int64_t waves = std::max<int64_t>(1, (columns + 64 * per_thread - 1) / (64 * per_thread));
  NormRocmConfig config;
  config.vectors = vectors;
  config.threads = static_cast<int>(std::min<int64_t>(waves * 64, most_threads));
  config.rows_per_block = config.threads == 64 ? 4 : 1;
  return config;
}

/// Whether no vector reaches past a row: a descriptor's bounds are then exact, and parameters come by fours.
inline bool in_vectors(DType type, int64_t columns, std::initializer_list<const void*> arrays) {
  return columns * size_of(type) % 16 == 0 && rocm_aligned_for_vectors(arrays);
}

/// A block for each row, or four rows a block where one wave with two vectors a thread holds a row. A wave with four vectors has
/// 4 KiB of each array under way; about 8 KiB on a compute unit would keep memory busy (5.3 TB/s over 304 of them, 400 ns).
inline NormRocmConfig forward(DType type, int64_t rows, int64_t columns, std::initializer_list<const void*> arrays) {
  constexpr int kMostThreads = 1024;
  int vectors = 0;
  if (in_vectors(type, columns, arrays) && columns <= kMostThreads * 4 * vector_elements(type))
    vectors = columns <= 64 * 2 * vector_elements(type) ? 2 : 4;
  NormRocmConfig config = threads_for(type, columns, vectors, kMostThreads);
  config.blocks = (rows + config.rows_per_block - 1) / config.rows_per_block;
  return config;
}

/// As many blocks as fit on the 304 compute units of an MI300X at the registers of the kernels (a wave has 128 with one vector a
/// thread, 256 with four), but not so many that a block has fewer than eight rows: each writes a partial sum of two rows' bytes.
inline NormRocmConfig backward(DType type, int64_t rows, int64_t columns, bool vectors_possible) {
  constexpr int64_t kComputeUnits = 304, kRowsOfBlock = 8;
  int vectors = 0;
  if (vectors_possible)
    for (int v : {4, 1})
      if (columns <= (v == 1 ? 1024 : 512) * v * vector_elements(type)) vectors = v;
  const int most_threads = vectors == 4 ? 512 : 1024;
  NormRocmConfig config = threads_for(type, columns, vectors, most_threads);
  const int64_t fit = std::max(1, most_threads / (config.threads * config.rows_per_block));
  const int64_t turns = (rows + config.rows_per_block - 1) / config.rows_per_block;
  const int64_t together = std::clamp<int64_t>(turns / (kComputeUnits * kRowsOfBlock), 1, fit);
  config.blocks = std::clamp<int64_t>(turns, 1, kComputeUnits * together);
  return config;
}

/// Floats of scratch for the partial sums of `parameters` gradients. Addresses are not known yet; without vectors there may be
/// more partial sums or fewer.
inline int64_t scratch_floats(DType type, int64_t rows, int64_t columns, int parameters) {
  const int64_t partials = std::max(backward(type, rows, columns, false).partials(),
                                    backward(type, rows, columns, in_vectors(type, columns, {})).partials());
  return partials * columns * parameters;
}

/// Adds up the partial sums of a parameter's gradient.
inline void sum_partials(const rocm::Kernel& kernel, const float* partials, float* sums, const NormRocmConfig& config,
                         int64_t columns, const RocmStream& stream) {
  const rocm::Geometry geometry{.grid = {(columns + 63) / 64, 1, 1}, .block = {64, 16, 1}};
  rocm::launch(kernel, geometry, stream, partials, sums, static_cast<unsigned>(config.partials()),
               static_cast<unsigned>(columns));
}

}  // namespace norm_rocm
}  // namespace jaxator
