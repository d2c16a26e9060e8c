/// Products with weights beyond 4 GiB and 2^31 elements, of which memory holds what is touched: the columns of the last block,
/// which alone runs. Activations of that size are in matmul_test.cpp.
#include "jaxator/matmul.h"
#include "tests/cpp/matmul_problem.h"
#include "tests/cpp/rocm/rows_testing.h"

namespace jaxator::testing {
namespace {

class RocmFarMatmul : public RocmRows {
 protected:
  void TearDown() override {
    jaxator_emulator_run_part(0, 0);
    RocmRows::TearDown();
  }
};
INSTANTIATE_TEST_SUITE_P(Every, RocmFarMatmul, ::testing::ValuesIn(kDevices), architecture_of);

TEST_P(RocmFarMatmul, Weights) {
  constexpr int64_t kRows = 16, kColumns = (int64_t{1} << 22) - 8, kDepth = 520, kTile = 256;
  constexpr int64_t kLast = kColumns % kTile, kFirst = kColumns - kLast;
  static_assert(kColumns * kDepth > int64_t{1} << 31);
  for (bool transposed : {false, true}) {
    SCOPED_TRACE(transposed);
    MatmulDesc whole{.type = DType::bf16, .out_type = DType::bf16, .m = kRows, .n = kColumns, .k = kDepth};
    whole.transpose_b = transposed;
    DeviceArray<uint16_t> a(GetParam(), kRows * kDepth), b(GetParam(), kDepth * kColumns), out(GetParam(), kRows * kColumns);
    std::mt19937_64 random(7);
    const TestArray rows = TestArray::normal(DType::bf16, kRows * kDepth, random),
                    part = TestArray::normal(DType::bf16, kDepth * kLast, random);
    const auto* bits = static_cast<const uint16_t*>(part.data());
    expect_ok(hipMemcpy(a.data(), rows.data(), kRows * kDepth * 2, hipMemcpyHostToDevice));
    // The last columns, as columns or as rows of b.
    if (transposed)
      expect_ok(hipMemcpy(b.data() + kFirst * kDepth, bits, kLast * kDepth * 2, hipMemcpyHostToDevice));
    else
      for (int64_t k = 0; k < kDepth; k++)
        expect_ok(hipMemcpy(b.data() + k * kColumns + kFirst, bits + k * kLast, kLast * 2, hipMemcpyHostToDevice));

    jaxator_emulator_run_part(kColumns / kTile, 1);
    run_on(GetParam(),
           [&](const RocmStream& stream) { matmul(whole, {.a = a.data(), .b = b.data(), .out = out.data()}, stream); });

    MatmulDesc small{.type = DType::bf16, .out_type = DType::bf16, .m = kRows, .n = kLast, .k = kDepth};
    small.transpose_b = transposed;
    const reference::Matmul want = reference::matmul(small, rows.values(), part.values(), {}, {});
    TestArray got(DType::bf16, kRows * kLast);
    for (int64_t row = 0; row < kRows; row++)
      expect_ok(hipMemcpy(static_cast<uint16_t*>(got.data()) + row * kLast, out.data() + row * kColumns + kFirst, kLast * 2,
                          hipMemcpyDeviceToHost));
    expect_within(
        got, want.out, [&](size_t i) { return 0x1p-8 * std::fabs(want.out[i]) + (kDepth + 4) * 0x1p-24 * want.magnitude[i]; },
        "out");
  }
}

}  // namespace
}  // namespace jaxator::testing
