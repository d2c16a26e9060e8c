/// What a product asks of the driver: tiles, clusters, and for tiles that are cut along k the ranges, flags and scratch.
#include "jaxator/matmul.h"
#include "src/ops/matmul/cuda_config.h"
#include "src/ops/matmul/hopper.h"
#include "tests/cpp/cuda_testing.h"

namespace jaxator::testing {
namespace {

using hopper::MatmulParams;

/// Addresses that nobody reads: the stub only records them.
void* address(int i) { return reinterpret_cast<void*>(int64_t{0x7000000000} + i * int64_t{0x1000000000}); }

MatmulDesc desc_of(int64_t m, int64_t n, int64_t k) {
  return {.type = DType::bf16, .out_type = DType::bf16, .m = m, .n = n, .k = k};
}

class CudaMatmul : public StubCuda {
 protected:
  /// What one call, prepared before, asks: preparing puts nothing on the stream.
  StubRecord run(const MatmulDesc& desc) {
    const MatmulArgs args{.a = address(0), .b = address(1), .out = address(2), .scratch = address(3)};
    matmul(desc, args, prepared(device_));
    EXPECT_EQ(stub_record().launches.size() + stub_record().fills.size(), 0u);
    stub_reset();
    matmul(desc, args, launching(device_));
    StubRecord record = stub_record();
    stub_reset();
    return record;
  }

  const int device_ = fresh_device();
};

TEST_F(CudaMatmul, WholeTilesNeedNoScratch) {
  const MatmulDesc desc = desc_of(4096, 4096, 4096);
  EXPECT_EQ(matmul_cuda_scratch_bytes(desc), 0);
  const StubRecord record = run(desc);
  EXPECT_EQ(record.fills.size(), 0u);
  ASSERT_EQ(record.launches.size(), 1u);
  const MatmulParams p = record.launches[0].argument<MatmulParams>(4);
  EXPECT_EQ(p.whole, p.cluster_rows * p.tile_columns);
  EXPECT_EQ(p.streams, 0);
}

/// The steps of the tiles that are over are dealt out evenly; the flags, and only they, are zeroed before the launch.
TEST_F(CudaMatmul, TheLastTilesAreCutIntoRanges) {
  for (const MatmulDesc& desc : {desc_of(8192, 8192, 8192), desc_of(8192, 14336, 4096), desc_of(8712, 2056, 4096)}) {
    const StubRecord record = run(desc);
    ASSERT_EQ(record.launches.size(), 1u);
    const StubLaunch& launch = record.launches[0];
    const MatmulParams p = launch.argument<MatmulParams>(4);
    const int tiles = p.cluster_rows * p.tile_columns, clusters = int(launch.grid[0] / launch.cluster[0]);
    EXPECT_EQ(int(launch.cluster[0]), p.pair);
    EXPECT_GT(p.streams, 1);
    EXPECT_LE(p.streams, clusters);
    EXPECT_EQ(p.whole % clusters, 0) << "the whole tiles fill every turn";
    EXPECT_LT(tiles - p.whole, clusters);
    EXPECT_EQ(p.streams * p.stream_steps + p.stream_extra, (tiles - p.whole) * p.steps) << "every step belongs to one range";
    EXPECT_GE(p.stream_steps, hopper::kLeastStreamSteps);

    const MatmulCudaConfig config = pick_cuda_config(desc);
    const int64_t flags = matmul_flag_bytes(config), sums = int64_t{p.streams} * p.pair * config.rows * config.columns * 4;
    EXPECT_GE(flags, int64_t{p.streams} * p.pair * hopper::kMatmulGroups * 4);
    EXPECT_EQ(matmul_cuda_scratch_bytes(desc), flags + sums);
    ASSERT_EQ(record.fills.size(), 1u);
    EXPECT_EQ(record.fills[0].address, reinterpret_cast<uint64_t>(address(3)));
    EXPECT_EQ(record.fills[0].value, 0u);
    EXPECT_EQ(int64_t(record.fills[0].words) * 4, flags);
    EXPECT_EQ(static_cast<void*>(p.ready), address(3));
    EXPECT_EQ(reinterpret_cast<char*>(p.partials) - static_cast<char*>(address(3)), flags);
  }
}

TEST_F(CudaMatmul, FewRowsShareStepsInAClusterOfTwo) {
  const StubRecord record = run(desc_of(16, 4096, 14336));
  ASSERT_EQ(record.launches.size(), 1u);
  EXPECT_EQ(record.launches[0].cluster[0], 2u);
  EXPECT_EQ(record.launches[0].argument<MatmulParams>(4).splits, 2);
  // Rows past m are not read.
  EXPECT_EQ(record.maps.at(0).box.at(1), 16u);
}

TEST_F(CudaMatmul, AFailingMemsetIsAnErrorWithItsName) {
  const MatmulArgs args{.a = address(0), .b = address(1), .out = address(2), .scratch = address(3)};
  const MatmulDesc desc = desc_of(8192, 14336, 4096);
  matmul(desc, args, prepared(device_));
  stub_fail("cuMemsetD32Async", kStubInvalidValue);
  EXPECT_NE(error_of([&] { matmul(desc, args, launching(device_)); }).find("cuMemsetD32Async"), std::string::npos);
}

}  // namespace
}  // namespace jaxator::testing
