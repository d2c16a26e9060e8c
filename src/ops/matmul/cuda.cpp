/// @file
/// Matrix products on a CUDA stream: check, simplify, decide, describe the arrays to the copy engine, launch.
#include "jaxator/cuda.h"

#include <algorithm>
#include <limits>

#include "jaxator/matmul.h"
#include "src/ops/matmul/cuda_config.h"
#include "src/ops/matmul/hopper.h"
#include "src/ops/matmul/problem.h"
#include "src/runtime/cuda/launch.h"
#include "src/runtime/cuda/tensor_map.h"

namespace jaxator {
namespace cuda::images {
extern const Image matmul_bf16_nn, matmul_bf16_nt, matmul_bf16_tn, matmul_bf16_tt, matmul_f16_nn, matmul_f16_nt, matmul_f16_tn,
    matmul_f16_tt, matmul_tf32_nt, matmul_loose;
}
namespace {

using cuda::Kernel;
using cuda::MapDimension;
using cuda::TensorMap;

/// Kernels of one image, by tile.
struct Kernels {
  Kernel tile128x256, tile128x128, tile64x128, tile64x64;
  constexpr explicit Kernels(const cuda::Image& image)
      : tile128x256(image, "matmul_128x256"),
        tile128x128(image, "matmul_128x128"),
        tile64x128(image, "matmul_64x128"),
        tile64x64(image, "matmul_64x64") {}
  const Kernel& of(const MatmulCudaConfig& config) const {
    if (config.rows == 64) return config.columns == 64 ? tile64x64 : tile64x128;
    return config.columns == 128 ? tile128x128 : tile128x256;
  }
};

// By [transpose_a][transpose_b].
const Kernels kBf16[2][2] = {{Kernels(cuda::images::matmul_bf16_nn), Kernels(cuda::images::matmul_bf16_nt)},
                             {Kernels(cuda::images::matmul_bf16_tn), Kernels(cuda::images::matmul_bf16_tt)}};
const Kernels kF16[2][2] = {{Kernels(cuda::images::matmul_f16_nn), Kernels(cuda::images::matmul_f16_nt)},
                            {Kernels(cuda::images::matmul_f16_tn), Kernels(cuda::images::matmul_f16_tt)}};
const Kernels kTf32{cuda::images::matmul_tf32_nt};
// By element type.
const Kernel kLoose[] = {{cuda::images::matmul_loose, "matmul_loose_tf32"},
                         {cuda::images::matmul_loose, "matmul_loose_bf16"},
                         {cuda::images::matmul_loose, "matmul_loose_f16"}};

void at_most_int(const char* name, int64_t value) {
  if (value > std::numeric_limits<int32_t>::max() / 2)
    throw Error(std::string(name) + "=" + std::to_string(value) + ": must be at most " +
                std::to_string(std::numeric_limits<int32_t>::max() / 2) + " on CUDA");
}

void check_route(const MatmulDesc& desc) {
  refuse_eight_bits(desc, "CUDA");
  if (desc.route == MatmulRoute::by_target && desc.type != DType::f32) return;
  if (desc.route == MatmulRoute::tf32 && desc.type == DType::f32) return;
  throw UnsupportedError(std::string("type=") + name_of(desc.type) +
                         ": the CUDA kernels multiply bfloat16 and float16, and float32 only by the name tf32");
}

/// Rows of a's tile that are loaded. Where one tile has all of m, those past it are not asked for, even if the copy engine would
/// fill them with zeros: at m=16 that cost a sixth of the time. What lies there reaches only rows of the result that do not
/// exist.
int64_t box_rows(const MatmulDesc& desc, const MatmulCudaConfig& config) {
  return desc.transpose_a ? config.rows : std::min<int64_t>((desc.m + 7) / 8 * 8, config.rows);
}

hopper::MatmulParams parameters(const MatmulDesc& desc, const MatmulArgs& args, const MatmulCudaConfig& config) {
  const int64_t k_steps = matmul_k_steps(desc), row_bytes = desc.n * size_of(desc.type);
  const int64_t steps = k_steps * desc.sum, rows = matmul_cluster_rows(desc, config), columns = matmul_tile_columns(desc, config);
  const int64_t whole = matmul_whole_tiles(desc, config), shared_steps = (rows * columns * desc.batch - whole) * steps;
  at_most_int("m", desc.m), at_most_int("n", desc.n), at_most_int("k", desc.k), at_most_int("batch", desc.batch),
      at_most_int("sum", desc.sum);
  at_most_int("steps along k", steps);
  // Each factor fits 31 bits, so no product overflows before it is tested.
  at_most_int("tiles of a matrix", rows * columns), at_most_int("tiles", rows * columns * desc.batch * config.pair),
      at_most_int("shared steps along k", shared_steps);
  at_most_int("matrices of a", matrices_a(desc)), at_most_int("matrices of b", matrices_b(desc));
  return {.out = args.out,
          .preactivation = desc.has_preactivation ? args.preactivation : nullptr,
          .bias = desc.has_bias ? args.bias : nullptr,
          .residual = desc.has_residual ? args.residual : nullptr,
          .m = int(desc.m),
          .n = int(desc.n),
          .k_steps = int(k_steps),
          .steps = int(steps),
          .cluster_rows = int(rows),
          .tile_columns = int(columns),
          .batch = int(desc.batch),
          .band = config.band,
          .pair = config.pair,
          .splits = config.splits,
          .whole = int(whole),
          .streams = config.streams,
          .stream_steps = config.streams ? int(shared_steps / config.streams) : 0,
          .stream_extra = config.streams ? int(shared_steps % config.streams) : 0,
          .ready = static_cast<int*>(args.scratch),
          .partials = reinterpret_cast<float*>(static_cast<char*>(args.scratch) + matmul_flag_bytes(config)),
          .stage_bytes = hopper::matmul_stage_bytes(int(box_rows(desc, config)), config.columns),
          .activation = int(desc.activation),
          .a_batch = int(matrix_a(desc, 1, 0)),
          .a_sum = int(matrix_a(desc, 0, 1)),
          .b_batch = int(matrix_b(desc, 1, 0)),
          .b_sum = int(matrix_b(desc, 0, 1)),
          .bias_batched = desc.batch_bias,
          .out_f32 = desc.out_type == DType::f32,
          .aligned_rows = row_bytes % 16 == 0,
          .store_maps = row_bytes % 16 == 0 && config.splits == 1};
}

/// [matrices, slow, fast] with boxes of 128 bytes by `box`.
TensorMap map_of(const char* name, DType type, const void* data, int64_t matrices, int64_t slow, int64_t fast, int64_t box) {
  const uint64_t row = uint64_t(fast) * size_of(type);
  return cuda::tensor_map(name, type, data,
                          {{.size = uint64_t(fast), .stride_bytes = 0, .box = uint32_t(128 / size_of(type))},
                           {.size = uint64_t(slow), .stride_bytes = row, .box = uint32_t(box)},
                           {.size = uint64_t(matrices), .stride_bytes = row * uint64_t(slow), .box = 1}});
}

void launch_tiled(const MatmulDesc& desc, const MatmulArgs& args, const MatmulCudaConfig& config, const CudaStream& stream) {
  const hopper::MatmulParams p = parameters(desc, args, config);
  // With k contiguous a box has the rows of a tile, else 128 bytes of rows and the k of a step.
  const int64_t k_of_step = 128 / size_of(desc.type);
  const TensorMap a = map_of("a", desc.type, args.a, matrices_a(desc), desc.transpose_a ? desc.k : desc.m,
                             desc.transpose_a ? desc.m : desc.k, desc.transpose_a ? k_of_step : box_rows(desc, config));
  const TensorMap b = map_of("b", desc.type, args.b, matrices_b(desc), desc.transpose_b ? desc.n : desc.k,
                             desc.transpose_b ? desc.k : desc.n, desc.transpose_b ? config.columns / config.pair : k_of_step);
  TensorMap out{}, preactivation{};
  if (p.store_maps) {
    out = map_of("out", desc.out_type, args.out, p.batch, desc.m, desc.n, 64);
    if (desc.has_preactivation)
      preactivation = map_of("preactivation", desc.type, args.preactivation, p.batch, desc.m, desc.n, 64);
  }
  const int64_t clusters = std::min(std::max<int64_t>(p.whole, p.streams), clusters_at_once(config.cluster()));
  const cuda::Geometry geometry{.grid = {clusters * config.cluster(), 1, 1},
                                .block = {hopper::kMatmulThreads, 1, 1},
                                .shared_bytes = hopper::matmul_shared_bytes(config.rows, config.columns),
                                .cluster = {config.cluster(), 1, 1}};
  const Kernels& kernels = desc.type == DType::f32    ? kTf32
                           : desc.type == DType::bf16 ? kBf16[desc.transpose_a][desc.transpose_b]
                                                      : kF16[desc.transpose_a][desc.transpose_b];
  if (config.streams > 0) cuda::zero(args.scratch, matmul_flag_bytes(config) / 4, stream);
  cuda::launch(kernels.of(config), geometry, stream, a, b, out, preactivation, p);
}

void launch_loose(const MatmulDesc& desc, const MatmulArgs& args, const MatmulCudaConfig& config, const CudaStream& stream) {
  hopper::MatmulParams p = parameters(desc, args, config);
  p.store_maps = 0;
  const hopper::LooseOperands in{.a = {args.a, desc.transpose_a ? 1 : desc.k, desc.transpose_a ? desc.m : 1, desc.m * desc.k},
                                 .b = {args.b, desc.transpose_b ? desc.k : 1, desc.transpose_b ? 1 : desc.n, desc.k * desc.n},
                                 .k = int(desc.k)};
  const int64_t tiles = int64_t{p.cluster_rows} * p.tile_columns * p.batch;
  const cuda::Geometry geometry{.grid = {std::min(tiles, clusters_at_once(1)), 1, 1},
                                .block = {hopper::kMatmulThreads, 1, 1},
                                .shared_bytes = hopper::matmul_shared_bytes(config.rows, config.columns)};
  cuda::launch(kLoose[static_cast<int>(desc.type)], geometry, stream, p, in);
}

}  // namespace

void matmul(const MatmulDesc& asked, const MatmulArgs& args, const CudaStream& stream) {
  asked.validate();
  check_route(asked);
  const MatmulDesc desc = simplified(asked);
  if (desc.m == 0 || desc.n == 0 || desc.batch == 0) return;
  const MatmulCudaConfig config = pick_cuda_config(desc);
  for (const void* array : {args.residual, static_cast<const void*>(args.out), static_cast<const void*>(args.preactivation)})
    cuda::require_aligned("an array of the result's shape", array, 16);
  if (config.streams > 0) cuda::require_aligned("scratch", args.scratch, 16);
  config.loose ? launch_loose(desc, args, config, stream) : launch_tiled(desc, args, config, stream);
}

std::string matmul_cuda_describe(const MatmulDesc& asked) {
  asked.validate();
  const MatmulDesc desc = simplified(asked);
  const MatmulCudaConfig config = pick_cuda_config(desc);
  const auto number = [](const char* name, int64_t value) { return std::string("\"") + name + "\": " + std::to_string(value); };
  if (config.loose) return "{\"kernel\": \"matmul_loose\", \"because\": \"" + matmul_cuda_loose_reason(desc) + "\"}";
  const std::string tile = std::to_string(config.rows) + "x" + std::to_string(config.columns);
  return "{\"kernel\": \"matmul_" + tile + "\", " + number("blocks_sharing_b", config.pair) + ", " +
         number("blocks_sharing_k", config.splits) + ", " + number("clusters_sharing_the_rest", config.streams) + ", " +
         number("band", config.band) + "}";
}

}  // namespace jaxator
