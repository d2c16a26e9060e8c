/// @file
/// Matrix products on a ROCm stream: check, simplify, decide, launch.
#include "jaxator/rocm.h"

#include <limits>

#include "jaxator/matmul.h"
#include "src/ops/matmul/cdna.h"
#include "src/ops/matmul/problem.h"
#include "src/ops/matmul/rocm_config.h"
#include "src/ops/rocm_kernels.h"

namespace jaxator {
namespace rocm::images {
extern const Image matmul_bf16_nn, matmul_bf16_nt, matmul_bf16_tn, matmul_bf16_tt, matmul_f16_nn, matmul_f16_nt, matmul_f16_tn,
    matmul_f16_tt, matmul_eight_bits, matmul_loose, matmul_sum;
}
namespace {

using rocm::Kernel;

#define JAXATOR_KERNEL(name) {rocm::images::name, #name}
// By [transpose_a][transpose_b].
const Kernel kBf16[2][2] = {{JAXATOR_KERNEL(matmul_bf16_nn), JAXATOR_KERNEL(matmul_bf16_nt)},
                            {JAXATOR_KERNEL(matmul_bf16_tn), JAXATOR_KERNEL(matmul_bf16_tt)}};
const Kernel kF16[2][2] = {{JAXATOR_KERNEL(matmul_f16_nn), JAXATOR_KERNEL(matmul_f16_nt)},
                           {JAXATOR_KERNEL(matmul_f16_tn), JAXATOR_KERNEL(matmul_f16_tt)}};
const Kernel kLooseBf16{rocm::images::matmul_loose, "matmul_loose_bf16"},
    kLooseF16{rocm::images::matmul_loose, "matmul_loose_f16"};
const Kernel kSumBf16{rocm::images::matmul_sum, "matmul_sum_bf16"}, kSumF16{rocm::images::matmul_sum, "matmul_sum_f16"};
// By the formats of a and b, less one.
#define JAXATOR_KERNELS_BY_FORMAT(image, name)                                                                           \
  {                                                                                                                      \
    {{image, name "_e4m3_e4m3"}, {image, name "_e4m3_e5m2"}}, { {image, name "_e5m2_e4m3"}, {image, name "_e5m2_e5m2"} } \
  }
const Kernel kEightBits[2][2] = JAXATOR_KERNELS_BY_FORMAT(rocm::images::matmul_eight_bits, "matmul");
const Kernel kLooseEightBits[2][2] = JAXATOR_KERNELS_BY_FORMAT(rocm::images::matmul_loose, "matmul_loose");

const Kernel& kernel_of(const MatmulDesc& desc, bool loose) {
  if (desc.eight_bits())
    return (loose ? kLooseEightBits : kEightBits)[static_cast<int>(desc.eight_a) - 1][static_cast<int>(desc.eight_b) - 1];
  const bool bf16 = desc.type == DType::bf16;
  if (loose) return bf16 ? kLooseBf16 : kLooseF16;
  return (bf16 ? kBf16 : kF16)[desc.transpose_a][desc.transpose_b];
}

void at_most(const char* name, int64_t value, int64_t most) {
  if (value > most)
    throw UnsupportedError(std::string(name) + "=" + std::to_string(value) + ": must be at most " + std::to_string(most) +
                           " on ROCm");
}

void check(const MatmulDesc& desc) {
  if (desc.route != MatmulRoute::by_target || desc.type == DType::f32)
    throw UnsupportedError(std::string("type=") + name_of(desc.type) + ", route=" + std::to_string(static_cast<int>(desc.route)) +
                           ": the ROCm kernels multiply bfloat16 and float16, by one route");
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max() / 2;
  at_most("m", desc.m, kMost), at_most("n", desc.n, cdna::kMatmulMostColumns), at_most("k", desc.k, kMost);
  at_most("batch", desc.batch, kMost), at_most("sum", desc.sum, kMost);
  // Each factor fits 31 bits; steps along k of all terms are counted in 32.
  at_most("k times sum", desc.k * desc.sum, int64_t{1} << 36);
}

cdna::MatmulOperand operand(const void* data, int64_t bytes, int64_t of_batch, int64_t of_sum) {
  return {.data = data, .batch_bytes = of_batch * bytes, .sum_bytes = of_sum * bytes};
}

cdna::MatmulScales scales(Scales kind, const float* data, bool batched, int64_t rows) {
  if (kind == Scales::none) return {};
  const bool each = kind == Scales::each;
  return {.data = data, .stride = each, .batch_bytes = each && batched ? rows * int64_t{4} : 0};
}

cdna::MatmulParams parameters(const MatmulDesc& desc, const MatmulArgs& args, const MatmulRocmConfig& config) {
  const int64_t bytes_a = desc.m * desc.k * desc.element_bytes(), bytes_b = desc.k * desc.n * desc.element_bytes();
  return {.a = operand(args.a, bytes_a, matrix_a(desc, 1, 0), matrix_a(desc, 0, 1)),
          .b = operand(args.b, bytes_b, matrix_b(desc, 1, 0), matrix_b(desc, 0, 1)),
          .out = args.out,
          .preactivation = desc.has_preactivation ? args.preactivation : nullptr,
          .residual = desc.has_residual ? args.residual : nullptr,
          .bias = desc.has_bias ? args.bias : nullptr,
          .row_scales = scales(desc.scales_a, args.scales_a, desc.batch_a, desc.m),
          .column_scales = scales(desc.scales_b, args.scales_b, desc.batch_b, desc.n),
          .m = static_cast<unsigned>(desc.m),
          .n = static_cast<unsigned>(desc.n),
          .k = static_cast<unsigned>(desc.k),
          .batch = static_cast<unsigned>(desc.batch),
          .terms = desc.k == 0 ? 0 : static_cast<unsigned>(desc.sum),
          .tile_rows = static_cast<unsigned>(config.tile_rows),
          .tile_columns = static_cast<unsigned>(config.tile_columns),
          .parts = static_cast<unsigned>(config.parts),
          .partials = static_cast<float*>(args.scratch),
          .chunk = config.chunk,
          .window = config.window,
          .bias_batched = desc.batch_bias,
          .activation = static_cast<int>(desc.activation),
          .out_f32 = desc.out_type == DType::f32};
}

}  // namespace

void matmul(const MatmulDesc& asked, const MatmulArgs& args, const RocmStream& stream) {
  asked.validate();
  const MatmulDesc desc = simplified(asked);
  check(desc);
  if (desc.m == 0 || desc.n == 0 || desc.batch == 0) return;
  MatmulRocmConfig config = pick_rocm_config(desc, stream.architecture);
  if (!rocm_aligned_for_vectors({args.residual, args.out, args.preactivation}))
    throw Error("an array of the result's shape does not begin at a multiple of 16 bytes");
  if (!rocm_aligned_for_vectors({args.a, args.b})) config.loose = true, config.parts = 1;
  if (config.parts > 1 && !rocm_aligned_for_vectors({args.scratch}))
    throw Error("scratch does not begin at a multiple of 16 bytes");
  const int64_t tiles = config.tile_rows * config.tile_columns * desc.batch;
  const rocm::Geometry geometry{.grid = {tiles * config.parts, 1, 1}, .block = {cdna::kMatmulThreads, 1, 1}};
  at_most("tiles of 256 x 256", geometry.grid[0], std::numeric_limits<int32_t>::max() / cdna::kMatmulThreads);
  const cdna::MatmulParams p = parameters(desc, args, config);
  const Kernel& kernel = kernel_of(desc, config.loose);
  if (!config.loose) {
    rocm::launch(kernel, geometry, stream, p);
    if (config.parts == 1) return;
    const rocm::Geometry of_sum{.grid = {tiles, 1, 1}, .block = {cdna::kMatmulThreads, 1, 1}};
    return rocm::launch(desc.type == DType::bf16 ? kSumBf16 : kSumF16, of_sum, stream, p);
  }
  const cdna::LooseStrides a{.row = desc.transpose_a ? 1 : desc.k, .k = desc.transpose_a ? desc.m : 1};
  const cdna::LooseStrides b{.row = desc.transpose_b ? desc.k : 1, .k = desc.transpose_b ? 1 : desc.n};
  rocm::launch(kernel, geometry, stream, p, a, b);
}

int64_t matmul_rocm_scratch_bytes(const MatmulDesc& asked) {
  const MatmulDesc desc = simplified(asked);
  if (desc.m == 0 || desc.n == 0 || desc.batch == 0) return 0;
  // The same for all architectures.
  return matmul_partials_bytes(desc, pick_rocm_config(desc, RocmArchitecture::gfx950));
}

std::string matmul_rocm_describe(const MatmulDesc& asked, RocmArchitecture architecture) {
  asked.validate();
  const MatmulDesc desc = simplified(asked);
  check(desc);
  const MatmulRocmConfig config = pick_rocm_config(desc, architecture);
  if (config.loose) return "{\"kernel\": \"matmul_loose\", \"because\": \"" + matmul_rocm_loose_reason(desc) + "\"}";
  const auto number = [](const char* name, int64_t value) { return std::string(", \"") + name + "\": " + std::to_string(value); };
  return "{\"kernel\": \"matmul_256x256\"" + number("tiles", config.tile_rows * config.tile_columns * desc.batch) +
         number("blocks_sharing_k", config.parts) + number("chunk", config.chunk) + number("window", config.window) + "}";
}

}  // namespace jaxator
