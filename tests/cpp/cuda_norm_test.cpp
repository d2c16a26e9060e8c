/// What rms_norm asks of the driver: which kernels, over how many blocks, with which arguments.
#include "jaxator/rms_norm.h"
#include "src/ops/rms_norm/hopper.h"
#include "tests/cpp/cuda_testing.h"
#include "tests/cpp/shapes.h"
#include "tests/cpp/testing.h"

namespace jaxator::testing {
namespace {

/// Addresses that nobody reads: the stub only records them.
struct Arrays {
  int64_t misaligned = 0;  // bytes added to every array

  void* at(int i) const { return reinterpret_cast<void*>(int64_t{0x7000000000} + i * int64_t{0x100000000} + misaligned); }
  template <class T> T* at(int i) const { return static_cast<T*>(at(i)); }
};

class CudaRmsNorm : public StubCuda {
 protected:
  /// Launches of one call, which was prepared before: preparing launches nothing, launching loads nothing.
  template <class Run> std::vector<StubLaunch> launches_of(Run&& run) {
    run(prepared(device_));
    EXPECT_EQ(stub_record().launches.size(), 0u);
    const size_t loads = stub_record().loads.size();
    run(launching(device_));
    EXPECT_EQ(stub_record().loads.size(), loads);
    std::vector<StubLaunch> launches = stub_record().launches;
    stub_reset();
    for (const StubLaunch& launch : launches) EXPECT_EQ(launch.stream, stream());
    return launches;
  }

  std::vector<StubLaunch> forward(const RmsNormDesc& desc, const Arrays& arrays) {
    return launches_of([&](const CudaStream& stream) {
      rms_norm_forward(desc,
                       {.x = arrays.at(0),
                        .residual = desc.has_residual ? arrays.at(1) : nullptr,
                        .weight = desc.has_weight ? arrays.at<float>(2) : nullptr,
                        .y = arrays.at(3),
                        .sum = desc.has_residual ? arrays.at(4) : nullptr},
                       stream);
    });
  }

  std::vector<StubLaunch> backward(const RmsNormDesc& desc, const Arrays& arrays) {
    return launches_of([&](const CudaStream& stream) {
      rms_norm_backward(desc,
                        {.sum = arrays.at(0),
                         .weight = desc.has_weight ? arrays.at<float>(1) : nullptr,
                         .dy = arrays.at(2),
                         .dsum = desc.has_residual ? arrays.at(3) : nullptr,
                         .dx = arrays.at(4),
                         .dweight = desc.has_weight ? arrays.at<float>(5) : nullptr,
                         .scratch = desc.has_weight ? arrays.at<float>(6) : nullptr},
                        stream);
    });
  }

  const int device_ = fresh_device();
};

std::string suffix_of(DType type) { return type == DType::f32 ? "_f32" : type == DType::bf16 ? "_bf16" : "_f16"; }

std::vector<RmsNormDesc> problems() {
  std::vector<RmsNormDesc> problems;
  const std::vector<RowShape> shapes{{1, 1},       {3, 7},        {5, 64},    {1000, 96},
                                     {4096, 4096}, {16384, 8192}, {2, 40000}, {1 << 20, 128}};
  for (const RowShape& shape : shapes)
    for (DType type : kDTypes)
      for (bool weight : {false, true})
        for (bool residual : {false, true})
          problems.push_back({.type = type,
                              .rows = shape.rows,
                              .columns = shape.columns,
                              .epsilon = 1e-5f,
                              .has_residual = residual,
                              .has_weight = weight});
  return problems;
}

std::string text_of(const RmsNormDesc& d) {
  return std::string(name_of(d.type)) + " " + std::to_string(d.rows) + "x" + std::to_string(d.columns) +
         (d.has_weight ? " weight" : "") + (d.has_residual ? " residual" : "");
}

TEST_F(CudaRmsNorm, ForwardLaunchesOneKernelThatCoversTheRows) {
  for (const RmsNormDesc& desc : problems())
    for (int64_t misaligned : {0, 4}) {
      SCOPED_TRACE(text_of(desc) + (misaligned ? " misaligned" : ""));
      const Arrays arrays{misaligned};
      const std::vector<StubLaunch> launches = forward(desc, arrays);
      ASSERT_EQ(launches.size(), 1u);
      const StubLaunch& launch = launches[0];
      EXPECT_TRUE(launch.entry.starts_with("rms_norm_forward") && launch.entry.ends_with(suffix_of(desc.type))) << launch.entry;
      const bool elements = launch.entry.find("elements") != std::string::npos;
      const bool no_vectors = misaligned || desc.columns * size_of(desc.type) % 16 != 0;
      if (no_vectors || desc.columns <= 8192) {
        EXPECT_EQ(elements, no_vectors) << launch.entry;
      }
      EXPECT_EQ(launch.block[0] % 32, 0u);
      EXPECT_GE(int64_t{launch.grid[0]} * launch.block[1], desc.rows);
      EXPECT_LT(int64_t{launch.grid[0] - 1} * launch.block[1], desc.rows);
      const auto p = launch.argument<hopper::RmsNormForward>(0);
      EXPECT_EQ(p.x, arrays.at(0));
      EXPECT_EQ(p.residual, desc.has_residual ? arrays.at(1) : nullptr);
      EXPECT_EQ(p.weight, desc.has_weight ? arrays.at(2) : nullptr);
      EXPECT_EQ(p.y, arrays.at(3));
      EXPECT_EQ(p.sum, desc.has_residual ? arrays.at(4) : nullptr);
      EXPECT_EQ(p.rows, desc.rows);
      EXPECT_EQ(p.columns, desc.columns);
      EXPECT_EQ(p.epsilon, desc.epsilon);
    }
}

TEST_F(CudaRmsNorm, BackwardAddsUpPartialSumsThatFitTheScratch) {
  for (const RmsNormDesc& desc : problems())
    for (int64_t misaligned : {0, 4}) {
      SCOPED_TRACE(text_of(desc) + (misaligned ? " misaligned" : ""));
      const Arrays arrays{misaligned};
      const std::vector<StubLaunch> launches = backward(desc, arrays);
      ASSERT_EQ(launches.size(), desc.has_weight ? 2u : 1u);
      EXPECT_TRUE(launches[0].entry.ends_with(suffix_of(desc.type))) << launches[0].entry;
      if (misaligned) {
        EXPECT_NE(launches[0].entry.find("elements"), std::string::npos) << launches[0].entry;
      }
      const auto p = launches[0].argument<hopper::RmsNormBackward>(0);
      EXPECT_EQ(p.sum, arrays.at(0));
      EXPECT_EQ(p.weight, desc.has_weight ? arrays.at(1) : nullptr);
      EXPECT_EQ(p.dy, arrays.at(2));
      EXPECT_EQ(p.dsum, desc.has_residual ? arrays.at(3) : nullptr);
      EXPECT_EQ(p.dx, arrays.at(4));
      EXPECT_EQ(p.partials, desc.has_weight ? arrays.at(6) : nullptr);
      EXPECT_EQ(p.rows, desc.rows);
      EXPECT_EQ(p.columns, desc.columns);
      if (!desc.has_weight) continue;
      const StubLaunch& sum = launches[1];
      EXPECT_EQ(sum.argument<float*>(0), arrays.at(6));
      EXPECT_EQ(sum.argument<float*>(1), arrays.at(5));
      const size_t arguments = sum.arguments.size();  // the last two are groups and columns
      EXPECT_EQ(sum.argument<int>(arguments - 1), desc.columns);
      const int64_t groups = sum.argument<int>(arguments - 2);
      EXPECT_LE(groups * desc.columns, rms_norm_cuda_scratch_floats(desc));
      // A partial sum of each block, or of each group of threads with rows of its own.
      EXPECT_TRUE(groups == launches[0].grid[0] || groups == int64_t{launches[0].grid[0]} * launches[0].block[1]) << groups;
    }
}

TEST_F(CudaRmsNorm, WithoutRowsOnlyTheGradientOfTheWeightIsWritten) {
  const RmsNormDesc desc{.type = DType::bf16, .rows = 0, .columns = 64, .epsilon = 1e-5f, .has_weight = true};
  EXPECT_EQ(forward(desc, {}).size(), 0u);
  EXPECT_EQ(backward(desc, {}).size(), 2u);
  RmsNormDesc plain = desc;
  plain.has_weight = false;
  EXPECT_EQ(backward(plain, {}).size(), 0u);
  RmsNormDesc empty = desc;
  empty.rows = 5, empty.columns = 0;
  EXPECT_EQ(forward(empty, {}).size(), 0u);
  EXPECT_EQ(backward(empty, {}).size(), 0u);
}

TEST_F(CudaRmsNorm, BadRequestsAreNamedBeforeAnythingIsLoaded) {
  const CudaStream stream = prepared(device_);
  EXPECT_EQ(error_of([&] { rms_norm_forward({.rows = -1, .columns = 4}, {}, stream); }), "rows=-1: must not be negative");
  EXPECT_EQ(error_of([&] { rms_norm_forward({.rows = 1, .columns = int64_t{1} << 31}, {}, stream); }),
            "columns=2147483648: must be at most 1073741824");
  EXPECT_EQ(stub_record().loads.size(), 0u);
}

}  // namespace
}  // namespace jaxator::testing
