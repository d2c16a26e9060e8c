/// @file
/// How a normalisation over the last axis is cut up on a Hopper GPU: the same for every norm, whose passes move the same bytes.
/// Decided by the shape and the addresses alone, so results do not depend on the device at hand.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "src/ops/cuda_kernels.h"
#include "src/runtime/cuda/launch.h"

namespace jaxator {

struct NormCudaConfig {
  int vectors = 0;         // of 16 bytes that a thread has of a row; 0: element by element, for any length and alignment
  int threads = 32;        // of one row
  int rows_per_block = 1;  // more than one only where a warp has a row: the block's barrier belongs to one row
  int64_t blocks = 1;
  int stages = 0;  // backward: of the ring that rows come through
  int shared_bytes = 0;

  /// Partial sums of a parameter's gradient: blocks add up their rows', but not element by element.
  int64_t partials() const { return blocks * (vectors > 0 ? 1 : rows_per_block); }
  cuda::Geometry geometry() const {
    return {.grid = {blocks, 1, 1}, .block = {threads, rows_per_block, 1}, .shared_bytes = shared_bytes};
  }
};

/// What differs between the norms: registers of their kernels.
struct NormCudaKernels {
  int forward_threads;   // of a block at most
  int backward_vectors;  // of a thread; rows too long for it have four
  int backward_threads;  // on a multiprocessor
};

namespace norm_cuda {

inline constexpr NormCudaKernels kRmsNorm{.forward_threads = 1024, .backward_vectors = 1, .backward_threads = 1024};
inline constexpr NormCudaKernels kLayerNorm{.forward_threads = 640, .backward_vectors = 2, .backward_threads = 512};

/// Kernels count columns in 32 bits.
inline void check_columns(int64_t columns) {
  constexpr int64_t kMost = int64_t{1} << 30;
  if (columns > kMost) throw Error("columns=" + std::to_string(columns) + ": must be at most " + std::to_string(kMost));
}

/// What block_sum needs for up to four values.
inline constexpr int kSumBytes = 2 * 32 * 4 * int(sizeof(float));

inline int64_t vector_elements(DType type) { return 16 / size_of(type); }

/// Threads of a row, `vectors` for each; whole warps.
inline NormCudaConfig threads_for(DType type, int64_t columns, int vectors, int most_threads) {
  const int64_t per_thread = vectors > 0 ? vectors * vector_elements(type) : 8;
  const int64_t warps = std::max<int64_t>(1, (columns + 32 * per_thread - 1) / (32 * per_thread));
  NormCudaConfig config;
  config.vectors = vectors;
  config.threads = static_cast<int>(std::min<int64_t>(warps * 32, most_threads));
  // Eight warps a block keep an SM full (2048 threads in 32 blocks at most) where rows are short.
  config.rows_per_block = config.threads == 32 ? 8 : 1;
  config.shared_bytes = kSumBytes;
  return config;
}

inline bool in_vectors(DType type, int64_t columns, std::initializer_list<const void*> arrays) {
  return columns * size_of(type) % 16 == 0 && columns % 4 == 0 && aligned_for_vectors(arrays);  // parameters come by fours
}

/// A block for each row. Four vectors a thread: small blocks, of which many are on a multiprocessor, cover each other's
/// reductions (16384x8192 bfloat16 rms_norm: 0.97 of a copy, with two vectors 0.73).
inline NormCudaConfig forward(const NormCudaKernels& kernels, DType type, int64_t rows, int64_t columns,
                              std::initializer_list<const void*> arrays) {
  int vectors = 0;
  if (in_vectors(type, columns, arrays) && columns <= kernels.forward_threads * 4 * vector_elements(type))
    vectors = columns <= 32 * 2 * vector_elements(type) ? 2 : 4;
  NormCudaConfig config = threads_for(type, columns, vectors, vectors > 0 ? kernels.forward_threads : 1024);
  config.blocks = (rows + config.rows_per_block - 1) / config.rows_per_block;
  return config;
}

/// As many blocks as fit on 132 multiprocessors at the registers of the kernels: each keeps one partial sum, and few partial sums
/// cost little to add up. `arrays`: what is read of each row.
inline NormCudaConfig backward(const NormCudaKernels& kernels, DType type, int64_t rows, int64_t columns, bool vectors_possible,
                               int arrays) {
  constexpr int64_t kMultiprocessors = 132, kSharedBytes = 220 << 10;
  constexpr int kLongRowThreads = 512;  // with four vectors
  int vectors = 0;
  if (vectors_possible && columns <= kernels.backward_threads * kernels.backward_vectors * vector_elements(type))
    vectors = kernels.backward_vectors;
  else if (vectors_possible && columns <= kLongRowThreads * 4 * vector_elements(type))
    vectors = 4;
  const int resident = vectors == 4 ? kLongRowThreads : vectors > 0 ? kernels.backward_threads : 1024;
  NormCudaConfig config = threads_for(type, columns, vectors, resident);
  const int64_t together = std::max(1, resident / (config.threads * config.rows_per_block));  // blocks on a multiprocessor
  config.blocks = std::clamp<int64_t>((rows + config.rows_per_block - 1) / config.rows_per_block, 1, kMultiprocessors * together);
  if (vectors == 0) return config;

  // 96 to 144 KiB under way on a multiprocessor: fewer leave the memory idle, more slow it down. A block that is alone there
  // needs a fourth stage, as the one just left is filled again only after the next row's reduction. 16384x8192 bfloat16
  // layer_norm, one block: 0.89, 0.94, 0.93 of a copy with 3, 4, 5 stages; 8192x4096, two blocks: 0.85, 0.83 with 3, 4.
  const int64_t row_bytes = columns * size_of(type) * arrays;
  config.stages = together == 1 && arrays == 2 ? 4 : 3;
  while (config.stages > 2 && config.rows_per_block * row_bytes * config.stages * together > kSharedBytes) config.stages--;
  const int64_t ring_bytes = 64 + row_bytes * config.stages;
  const int64_t partial_bytes = config.rows_per_block > 1 ? columns * int64_t{sizeof(float)} : 0;  // in the ring's place
  config.shared_bytes += static_cast<int>(config.rows_per_block * std::max(ring_bytes, partial_bytes));
  return config;
}

/// Floats of scratch for the partial sums of `parameters` gradients. Addresses are not known yet; without vectors there may be
/// more partial sums or fewer.
inline int64_t scratch_floats(const NormCudaKernels& kernels, DType type, int64_t rows, int64_t columns, int parameters) {
  int64_t partials = 0;
  for (bool vectors : {false, in_vectors(type, columns, {})})
    partials = std::max(partials, backward(kernels, type, rows, columns, vectors, 2).partials());
  return partials * columns * parameters;
}

/// Adds up the partial sums of one parameter's gradient, or of two that follow each other in memory.
inline void sum_partials(const cuda::Kernel& kernel, const float* partials, float* first, float* second,
                         const NormCudaConfig& config, int64_t columns, const CudaStream& stream) {
  const cuda::Geometry geometry{.grid = {(columns + 31) / 32, second != nullptr ? 2 : 1, 1},
                                .block = {32, 32, 1},
                                .shared_bytes = 32 * 33 * int(sizeof(float))};
  cuda::launch(kernel, geometry, stream, partials, first, second, static_cast<int>(config.partials()), static_cast<int>(columns));
}

}  // namespace norm_cuda
}  // namespace jaxator
