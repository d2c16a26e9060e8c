/// matmul's kernels for gfx942 and gfx950 on the emulator, with all its checks: values for every layout, batch and epilogue, any
/// order of waves, arrays beyond 4 GiB, bytes moved, the order of blocks.
#include "jaxator/matmul.h"

#include <algorithm>
#include <set>

#include "src/ops/matmul/cdna.h"
#include "src/ops/matmul/rocm_config.h"
#include "tests/cpp/matmul_problem.h"
#include "tests/cpp/rocm/rows_testing.h"

namespace jaxator::rocm::images {
extern const Image matmul_bf16_nn, matmul_bf16_nt, matmul_bf16_tn, matmul_bf16_tt;
}

namespace jaxator::testing {
namespace {

class RocmMatmul : public RocmRows {};
INSTANTIATE_TEST_SUITE_P(Every, RocmMatmul, ::testing::ValuesIn(kDevices), architecture_of);

/// Runs a problem on a device; `offset` moves the operands from a multiple of 16.
MatmulResult run_problem(int device, const MatmulProblem& p, size_t offset = 0) {
  const MatmulDesc& d = p.desc;
  MatmulResult result{TestArray(d.out_type, p.elements()), TestArray(d.type, d.has_preactivation ? p.elements() : 0)};
  const Bytes a(device, p.a, true, offset), b(device, p.b, true, offset), bias(device, p.bias, d.has_bias);
  const Bytes residual(device, p.residual, d.has_residual), out(device, p.elements() * size_of(d.out_type));
  const Bytes preactivation(device, d.has_preactivation ? p.elements() * size_of(d.type) : 0);
  const Bytes scratch(device, matmul_rocm_scratch_bytes(d));
  for (bool prepare_only : {true, false})
    matmul(d,
           {.a = a.data(),
            .b = b.data(),
            .bias = bias.floats(),
            .residual = residual.data(),
            .out = out.data(),
            .preactivation = preactivation.data(),
            .scratch = scratch.data()},
           {.device = device, .architecture = rocm_device_architecture(device), .prepare_only = prepare_only});
  out.read(result.out), preactivation.read(result.preactivation);
  return result;
}

void check(int device, const MatmulDesc& desc, size_t offset = 0) {
  const MatmulProblem p(desc);
  SCOPED_TRACE(std::to_string(desc.m) + "x" + std::to_string(desc.n) + "x" + std::to_string(desc.k) + " " + name_of(desc.type) +
               (desc.transpose_a ? " a^T" : "") + (desc.transpose_b ? " b^T" : "") + " batch " + std::to_string(desc.batch) +
               " sum " + std::to_string(desc.sum));
  expect_right(p, run_problem(device, p, offset));
}

TEST_P(RocmMatmul, EveryShapeAndLayout) {
  int turn = 0;
  for (ProductShape s : kProductShapes)
    for (bool transpose_a : {false, true})
      for (bool transpose_b : {false, true}) {
        turn++;
        check(GetParam(), {.type = turn % 2 ? DType::bf16 : DType::f16,
                           .out_type = turn % 3 == 0 ? DType::f32
                                       : turn % 2    ? DType::bf16
                                                     : DType::f16,
                           .m = s.m,
                           .n = s.n,
                           .k = s.k,
                           .transpose_a = transpose_a,
                           .transpose_b = transpose_b,
                           .has_bias = turn % 5 < 3,
                           .activation = static_cast<Activation>(turn % 5),
                           .has_residual = turn % 7 < 3,
                           .has_preactivation = turn % 4 < 2});
      }
}

/// Rows of whole vectors: the fast kernels, at the edges of tiles and of steps along k.
TEST_P(RocmMatmul, EveryEdgeOfTiles) {
  constexpr ProductShape kShapes[] = {{8, 8, 8},      {256, 256, 64}, {248, 264, 56}, {264, 248, 72},
                                      {16, 520, 136}, {520, 16, 32},  {128, 64, 200}, {136, 72, 520}};
  int turn = 0;
  for (ProductShape s : kShapes)
    for (bool transpose_a : {false, true})
      for (bool transpose_b : {false, true})
        check(GetParam(), {.type = ++turn % 2 ? DType::f16 : DType::bf16,
                           .out_type = turn % 3   ? DType::f32
                                       : turn % 2 ? DType::f16
                                                  : DType::bf16,
                           .m = s.m,
                           .n = s.n,
                           .k = s.k,
                           .transpose_a = transpose_a,
                           .transpose_b = transpose_b,
                           .has_residual = turn % 5 == 0});
}

TEST_P(RocmMatmul, EveryBatchAndSum) {
  int turn = 0;
  for (bool batch_a : {false, true})
    for (bool batch_b : {false, true})
      for (bool sum_a : {false, true})
        for (bool sum_b : {false, true})
          for (int64_t k : {40, 64, 7}) {
            turn++;
            check(GetParam(), {.type = DType::bf16,
                               .out_type = turn % 2 ? DType::f32 : DType::bf16,
                               .batch = 2,
                               .sum = 3,
                               .m = 24,
                               .n = 16,
                               .k = k,
                               .transpose_a = turn % 3 == 0,
                               .transpose_b = turn % 4 < 2,
                               .batch_a = batch_a,
                               .batch_b = batch_b,
                               .sum_a = sum_a,
                               .sum_b = sum_b,
                               .has_bias = true,
                               .batch_bias = turn % 2 == 0});
          }
}

/// Few tiles and a long k: several blocks have a part of the steps each, which may begin in any matrix of a sum.
TEST_P(RocmMatmul, SharedSteps) {
  struct Case {
    int64_t m, n, k, batch, sum;
    int parts;
  };
  constexpr Case kCases[] = {{8, 16, 3080, 1, 1, 3}, {16, 264, 2056, 1, 1, 2}, {24, 16, 264, 2, 9, 2}};
  // Long products: a loaded machine needs more than the usual limit of a launch.
  jaxator_emulator_configure(emulator::kWaits | emulator::kRaces | emulator::kPoison, 0, /*threads=*/2, /*time_limit_s=*/20);
  int turn = 0;
  for (const Case& c : kCases)
    for (bool transpose_a : {false, true})
      for (bool transpose_b : {false, true}) {
        const DType type = ++turn % 2 ? DType::bf16 : DType::f16;
        const MatmulDesc desc{.type = type,
                              .out_type = turn % 3 ? DType::f32 : type,
                              .batch = c.batch,
                              .sum = c.sum,
                              .m = c.m,
                              .n = c.n,
                              .k = c.k,
                              .transpose_a = transpose_a,
                              .transpose_b = transpose_b,
                              .has_bias = turn % 2 == 0,
                              .activation = static_cast<Activation>(turn % 5),
                              .has_residual = turn % 5 < 2,
                              .has_preactivation = turn % 4 == 1};
        EXPECT_EQ(pick_rocm_config(simplified(desc), RocmArchitecture::gfx942).parts, c.parts);
        EXPECT_EQ(pick_rocm_config(simplified(desc), RocmArchitecture::gfx950).parts, c.parts);
        check(GetParam(), desc);
      }
}

/// Arrays that do not begin at multiples of 16 are taken element by element.
TEST_P(RocmMatmul, AnyAddressOfOperands) {
  for (bool transposed : {false, true})
    check(GetParam(), {.type = DType::bf16, .out_type = DType::f32, .m = 40, .n = 48, .k = 72, .transpose_b = transposed}, 2);
}

/// The same bits whatever the order of waves, for each kernel.
TEST_P(RocmMatmul, AnyOrderOfWaves) {
  for (bool transpose_a : {false, true})
    for (bool transpose_b : {false, true}) {
      const MatmulProblem p({.type = DType::bf16,
                             .out_type = DType::f32,
                             .m = 264,
                             .n = 256,
                             .k = 264,
                             .transpose_a = transpose_a,
                             .transpose_b = transpose_b});
      const MatmulResult first = run_problem(GetParam(), p);
      expect_right(p, first);
      for (uint64_t seed = 1; seed <= 6; seed++) {
        configure(emulator::kWaits | emulator::kRaces | emulator::kPoison, seed * 977);
        EXPECT_EQ(run_problem(GetParam(), p).out.bytes(), first.out.bytes()) << "seed " << seed;
      }
    }
}

TEST_P(RocmMatmul, Refusals) {
  const RocmStream stream = launching(GetParam());
  const auto error = [&](MatmulDesc desc) { return error_of([&] { matmul(desc, {}, stream); }); };
  EXPECT_EQ(error({.m = 1, .n = 1, .k = 1}),
            "type=float32, route=0: the ROCm kernels multiply bfloat16 and float16, by one route");
  EXPECT_EQ(error({.type = DType::bf16, .out_type = DType::bf16, .m = 1, .n = int64_t{1} << 22, .k = 1}),
            "n=4194304: must be at most 4194303 on ROCm");
  EXPECT_EQ(error({.type = DType::bf16, .out_type = DType::bf16, .m = 8, .n = 8, .k = 8, .eight_a = EightBits::e4m3}),
            "eight_b=0: both operands have eight bits or none");
  EXPECT_EQ(error({.type = DType::bf16, .out_type = DType::bf16, .m = 8, .n = 8, .k = 8, .scales_a = Scales::one}),
            "scales=1: only operands of eight bits have scales");
}

// ---- arrays beyond 4 GiB ---------------------------------------------------------------------------------------------------

/// a has more than 4 GiB and 2^31 elements, of which memory holds what is touched: the rows of the last block, which alone runs.
TEST_P(RocmMatmul, BeyondFourGiB) {
  struct Case {
    int64_t batch, m, k;
    bool transpose_a;
  };
  // One matrix of many rows, of which the last tile counts; many matrices; k in the slow direction, where steps go far.
  constexpr Case kCases[] = {{1, (int64_t{1} << 22) + 8, 520, false}, {9, 1 << 20, 264, false}, {1, 1 << 21, 1040, true}};
  constexpr int64_t kN = 16;
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.m);
    const MatmulDesc whole{.type = DType::bf16,
                           .out_type = DType::bf16,
                           .batch = c.batch,
                           .m = c.m,
                           .n = kN,
                           .k = c.k,
                           .transpose_a = c.transpose_a,
                           .batch_b = c.batch > 1};
    const int64_t size_a = c.batch * c.m * c.k, size_out = c.batch * c.m * kN;
    ASSERT_GT(size_a, int64_t{1} << 31);
    DeviceArray<uint16_t> a(GetParam(), size_a), out(GetParam(), size_out);
    DeviceArray<uint16_t> b(GetParam(), c.batch * c.k * kN);
    std::mt19937_64 random(7);
    const int64_t rows = c.m % 256 == 0 ? 256 : c.m % 256, first = c.m - rows, matrix = (c.batch - 1) * c.m * c.k;
    const TestArray part = TestArray::normal(DType::bf16, rows * c.k, random),
                    weights = TestArray::normal(DType::bf16, c.k * kN, random);
    // The last rows, as rows or as columns of a.
    const auto* bits = static_cast<const uint16_t*>(part.data());
    if (c.transpose_a)
      for (int64_t k = 0; k < c.k; k++)
        expect_ok(hipMemcpy(a.data() + matrix + k * c.m + first, bits + k * rows, rows * 2, hipMemcpyHostToDevice));
    else
      expect_ok(hipMemcpy(a.data() + matrix + first * c.k, bits, rows * c.k * 2, hipMemcpyHostToDevice));
    expect_ok(
        hipMemcpy(b.data() + (c.batch > 1 ? c.batch - 1 : 0) * c.k * kN, weights.data(), c.k * kN * 2, hipMemcpyHostToDevice));

    jaxator_emulator_run_part(c.batch * ((c.m + 255) / 256) - 1, 1);
    for (const RocmStream& stream : {prepared(GetParam()), launching(GetParam())})
      matmul(whole, {.a = a.data(), .b = b.data(), .out = out.data()}, stream);
    jaxator_emulator_run_part(0, 0);

    const MatmulDesc small{
        .type = DType::bf16, .out_type = DType::bf16, .m = rows, .n = kN, .k = c.k, .transpose_a = c.transpose_a};
    const reference::Matmul want = reference::matmul(small, part.values(), weights.values(), {}, {});
    TestArray got(DType::bf16, rows * kN);
    expect_ok(hipMemcpy(got.data(), out.data() + ((c.batch - 1) * c.m + first) * kN, rows * kN * 2, hipMemcpyDeviceToHost));
    expect_within(
        got, want.out, [&](size_t i) { return 0x1p-8 * std::fabs(want.out[i]) + (c.k + 4) * 0x1p-24 * want.magnitude[i]; },
        "out");
  }
}

// ---- traffic and order -----------------------------------------------------------------------------------------------------

/// A tile's operands come once, all lanes at work, the result leaves in pieces of 512 bytes, and LDS has no conflict.
TEST_P(RocmMatmul, MovesTheLeast) {
  constexpr int64_t kSize = 256, kDepth = 256;
  const rocm::Image* images[2][2] = {{&rocm::images::matmul_bf16_nn, &rocm::images::matmul_bf16_nt},
                                     {&rocm::images::matmul_bf16_tn, &rocm::images::matmul_bf16_tt}};
  constexpr const char* kNames[2][2] = {{"matmul_bf16_nn", "matmul_bf16_nt"}, {"matmul_bf16_tn", "matmul_bf16_tt"}};
  std::vector<uint16_t> a(kSize * kDepth), b(kSize * kDepth), out(kSize * kSize);
  for (bool transpose_a : {false, true})
    for (bool transpose_b : {false, true}) {
      const cdna::MatmulParams p{.a = {.data = a.data(), .batch_bytes = 0, .sum_bytes = 0},
                                 .b = {.data = b.data(), .batch_bytes = 0, .sum_bytes = 0},
                                 .out = out.data(),
                                 .preactivation = nullptr,
                                 .residual = nullptr,
                                 .bias = nullptr,
                                 .row_scales = {},
                                 .column_scales = {},
                                 .m = kSize,
                                 .n = kSize,
                                 .k = kDepth,
                                 .batch = 1,
                                 .terms = 1,
                                 .tile_rows = 1,
                                 .tile_columns = 1,
                                 .parts = 1,
                                 .partials = nullptr,
                                 .chunk = 1,
                                 .window = 1,
                                 .bias_batched = 0,
                                 .activation = 0,
                                 .out_f32 = 0};
      const rocm::Image::Code& code = images[transpose_a][transpose_b]->code[GetParam()];
      const auto object =
          emulator::CodeObject::load({reinterpret_cast<const uint8_t*>(code.begin), size_t(code.end - code.begin)});
      emulator::Device machine(object->architecture());
      for (std::vector<uint16_t>* array : {&a, &b, &out}) machine.map(array->data(), array->size() * 2);
      const emulator::Report report = machine.launch(*object, kNames[transpose_a][transpose_b], emulator::Arguments().add(p),
                                                     {.grid = {1, 1, 1},
                                                      .block = {cdna::kMatmulThreads, 1, 1},
                                                      .checks = emulator::kTrace | emulator::kAllChecks,
                                                      .threads = 1});
      EXPECT_TRUE(report.clean()) << report.text();
      uint64_t moved = 0;
      for (const emulator::TraceStep& step : report.trace) {
        EXPECT_EQ(step.global_bytes % 512, 0u) << "not all lanes";
        moved += step.global_bytes;
      }
      EXPECT_EQ(moved, (a.size() + b.size() + out.size()) * 2);
      EXPECT_FALSE(report.banks.empty());
      for (const emulator::BankUse& use : report.banks)
        EXPECT_EQ(use.cycles, use.conflict_free_cycles) << use.instruction << " " << use.source;
    }
}

TEST(RocmMatmulOrder, EveryTileOnce) {
  for (auto [rows, columns] : {std::pair{1u, 1u}, {3u, 5u}, {32u, 32u}, {17u, 61u}, {1u, 400u}, {400u, 1u}})
    for (unsigned chunk : {1u, 8u, 32u, 38u})
      for (unsigned window : {1u, 4u, 8u, 500u}) {
        std::set<std::pair<unsigned, unsigned>> seen;
        for (unsigned block = 0; block < rows * columns; block++) {
          const cdna::MatmulTile tile = cdna::matmul_tile_of(block, rows, columns, chunk, window);
          ASSERT_LT(tile.row, rows);
          ASSERT_LT(tile.column, columns);
          seen.insert({tile.row, tile.column});
        }
        EXPECT_EQ(seen.size(), rows * columns) << rows << "x" << columns << " chunk " << chunk << " window " << window;
      }
}

/// By hand: 256 compute units are 32 a die, whose 32 blocks touch at least 8 + 4 panels, which is 0.375 a block.
TEST(RocmMatmulOrder, FewPanels) {
  EXPECT_NEAR(matmul_panels(32, 32, 32, 8, 256), 0.375, 1e-9);
  // The same order where one turn is the whole grid: chunks of 64 leave half of the dies without work.
  EXPECT_NEAR(matmul_panels(16, 16, 32, 8, 256), 0.375, 1e-9);
  EXPECT_GT(matmul_panels(36, 36, 1, 1, 256), 0.5);
  for (RocmArchitecture architecture : {RocmArchitecture::gfx942, RocmArchitecture::gfx950})
    for (auto [m, n] : {std::pair{8192, 8192}, {4096, 4096}, {16384, 2048}, {8192, 28672}, {9216, 9216}}) {
      const MatmulRocmConfig c =
          pick_rocm_config({.type = DType::bf16, .out_type = DType::bf16, .m = m, .n = n, .k = 64}, architecture);
      const int units = architecture == RocmArchitecture::gfx942 ? 304 : 256;
      const double panels = matmul_panels(c.tile_rows, c.tile_columns, c.chunk, c.window, units);
      EXPECT_LE(panels, architecture == RocmArchitecture::gfx942 ? 0.56 : 0.39) << m << "x" << n;
      EXPECT_LE(panels, matmul_panels(c.tile_rows, c.tile_columns, 1, 1, units));
    }
}

}  // namespace
}  // namespace jaxator::testing
