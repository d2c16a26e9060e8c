#include "tests/cpp/matmul_problem.h"

#include "src/ops/matmul/config.h"
#include "src/ops/matmul/cuda_config.h"
#include "src/ops/matmul/problem.h"

namespace jaxator::testing {
namespace {

constexpr Activation kActivations[] = {Activation::none, Activation::relu, Activation::silu, Activation::gelu,
                                       Activation::gelu_tanh};

std::string text(const MatmulDesc& d) {
  return std::string(name_of(d.type)) + " -> " + name_of(d.out_type) + " batch " + std::to_string(d.batch) + " " +
         std::to_string(d.m) + "x" + std::to_string(d.n) + "x" + std::to_string(d.k) + (d.transpose_a ? " a^T" : "") +
         (d.transpose_b ? " b^T" : "") + " sum " + std::to_string(d.sum) + (d.batch_a ? "" : " a not batched") +
         (d.batch_b ? "" : " b not batched") + (d.sum_a ? "" : " a not summed") + (d.sum_b ? "" : " b not summed") +
         (d.has_bias ? " bias" : "") + (d.has_residual ? " residual" : "") + (d.has_preactivation ? " preactivation" : "") +
         " activation " + std::to_string(static_cast<int>(d.activation));
}

/// Both layouts of both operands.
template <class Body> void for_each_layout(MatmulDesc desc, Body&& body) {
  for (bool a : {false, true})
    for (bool b : {false, true}) {
      desc.transpose_a = a, desc.transpose_b = b;
      SCOPED_TRACE(text(desc));
      body(desc);
    }
}

TEST(Matmul, LayoutsAndShapes) {
  for_each_isa([] {
    SerialExecutor executor;
    int turn = 0;
    for (DType type : kDTypes)
      for (ProductShape shape : kProductShapes)
        for_each_layout({.type = type, .out_type = type, .m = shape.m, .n = shape.n, .k = shape.k}, [&](MatmulDesc desc) {
          // What follows the product changes with each problem, so that all pairs of it and a layout occur.
          desc.has_bias = turn & 1, desc.has_residual = turn & 2, desc.has_preactivation = turn & 4;
          desc.activation = kActivations[turn % 5];
          if (turn++ % 3 == 0) desc.out_type = DType::f32;
          const MatmulProblem problem(desc);
          expect_right(problem, run(problem, executor));
        });
  });
}

TEST(Matmul, EveryEpilogue) {
  for_each_isa([] {
    SerialExecutor executor;
    for (DType type : kDTypes)
      for (Activation activation : kActivations)
        for (int options = 0; options < 16; options++) {
          const MatmulDesc desc{.type = type,
                                .out_type = options & 8 ? DType::f32 : type,
                                .m = 11,
                                .n = 45,
                                .k = 19,
                                .has_bias = (options & 1) != 0,
                                .activation = activation,
                                .has_residual = (options & 2) != 0,
                                .has_preactivation = (options & 4) != 0};
          SCOPED_TRACE(text(desc));
          const MatmulProblem problem(desc);
          expect_right(problem, run(problem, executor));
        }
  });
}

TEST(Matmul, BatchesAndSums) {
  for_each_isa([] {
    SerialExecutor executor;
    for (auto [batch, sum] : {std::pair<int64_t, int64_t>{0, 1}, {3, 1}, {1, 3}, {2, 3}, {2, 0}})
      for (int has = 0; has < 16; has++)
        for_each_layout({.type = DType::bf16, .out_type = DType::bf16, .batch = batch, .sum = sum, .m = 9, .n = 35, .k = 21},
                        [&](MatmulDesc desc) {
                          desc.batch_a = has & 1, desc.batch_b = has & 2, desc.sum_a = has & 4, desc.sum_b = has & 8;
                          desc.has_bias = true, desc.batch_bias = has & 1, desc.has_residual = true;
                          const MatmulProblem problem(desc);
                          expect_right(problem, run(problem, executor));
                        });
  });
}

TEST(Matmul, BitsDoNotDependOnThreadsOrSlots) {
  for_each_isa([] {
    ThreadPool pool(4);
    SerialExecutor serial;
    const MatmulProblem problem({.type = DType::bf16, .out_type = DType::f32, .m = 300, .n = 520, .k = 600, .transpose_b = true});
    const MatmulResult once = run(problem, serial, 1);
    expect_right(problem, once);
    for (int64_t slots : {1, 2, 5}) EXPECT_EQ(run(problem, pool, slots).out.bytes(), once.out.bytes()) << slots;
  });
}

TEST(Matmul, RowsDoNotDependOnOtherRows) {
  // A row of the result is the same whether it is computed alone or among others, so long as the blocks along k are.
  for_each_isa([] {
    SerialExecutor executor;
    const MatmulProblem problem({.type = DType::f32, .out_type = DType::f32, .m = 40, .n = 50, .k = 700});
    const MatmulResult all = run(problem, executor);
    MatmulProblem head = problem;
    head.desc.m = 3;
    const MatmulResult some = run(head, executor);
    for (int64_t i = 0; i < 3 * 50; i++) EXPECT_EQ(some.out[i], all.out[i]) << i;
  });
}

TEST(Matmul, NaNStaysWhereItBelongs) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for_each_isa([&] {
    SerialExecutor executor;
    for (Activation activation : kActivations) {
      MatmulProblem problem({.type = DType::bf16, .out_type = DType::bf16, .m = 10, .n = 37, .k = 40, .activation = activation});
      problem.a.set(3 * 40 + 39, nan);  // row 3
      const MatmulResult result = run(problem, executor);
      for (int64_t i = 0; i < problem.elements(); i++)
        EXPECT_EQ(std::isnan(result.out[i]), i / 37 == 3) << i << " activation " << static_cast<int>(activation);
    }
  });
}

template <class Body> void expect_error(const std::string& part, Body&& body) {
  try {
    body();
    ADD_FAILURE() << "no error with " << part;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(Matmul, Errors) {
  SerialExecutor executor;
  expect_error("m=-1: must not be negative", [&] { matmul({.m = -1}, {}, 1, executor); });
  expect_error("out_type=float16", [&] { matmul({.type = DType::bf16, .out_type = DType::f16}, {}, 1, executor); });
  expect_error("slots=0", [&] { matmul({}, {}, 0, executor); });
  expect_error("activation=7", [&] { matmul({.activation = static_cast<Activation>(7)}, {}, 1, executor); });
  expect_error("route=tf32", [&] { matmul({.route = MatmulRoute::tf32}, {}, 1, executor); });
  expect_error("type=float32", [&] { matmul(MatmulDesc{.m = 1, .n = 1, .k = 1}, {}, CudaStream{}); });
}

TEST(Matmul, SimplifiedProblemsAreTheSame) {
  const MatmulDesc rows = simplified({.batch = 7, .m = 3, .n = 5, .k = 2, .batch_b = false});
  EXPECT_EQ(rows.m, 21);
  EXPECT_EQ(rows.batch, 1);
  const MatmulDesc sum = simplified({.batch = 2, .sum = 7, .m = 3, .n = 5, .k = 2, .transpose_a = true});
  EXPECT_EQ(sum.k, 14);
  EXPECT_EQ(sum.sum, 1);
  EXPECT_EQ(sum.batch, 2);
  const MatmulDesc own_bias =
      simplified({.batch = 7, .m = 3, .n = 5, .k = 2, .batch_b = false, .has_bias = true, .batch_bias = true});
  EXPECT_EQ(own_bias.batch, 7);
}

TEST(Matmul, CudaConfigs) {
  const auto pick = [](int64_t m, int64_t n, int64_t k, bool tb = false) {
    return pick_cuda_config({.type = DType::bf16, .out_type = DType::bf16, .m = m, .n = n, .k = k, .transpose_b = tb});
  };
  for (int64_t size : {4096, 8192}) {
    const MatmulCudaConfig config = pick(size, size, size);
    EXPECT_EQ(config.columns, 256);
    EXPECT_EQ(config.pair, 2);
    EXPECT_EQ(config.splits, 1);
  }
  const MatmulCudaConfig decode = pick(16, 4096, 14336);
  EXPECT_EQ(decode.rows, 64);
  EXPECT_TRUE(decode.splits > 1 || decode.streams > 0) << "32 tiles leave 100 multiprocessors idle";
  EXPECT_TRUE(pick(5, 7, 9).loose);
  EXPECT_TRUE(pick(64, 50257, 768).loose);  // rows of b of 100514 bytes
  EXPECT_FALSE(pick(64, 50257, 768, true).loose);
  for (int64_t m : {1, 17, 64, 100, 512, 5000})
    for (int64_t n : {8, 128, 4096, 32000})
      for (int64_t k : {8, 64, 1000, 14336}) {
        const MatmulCudaConfig config = pick(m, n, k);
        EXPECT_LE(config.cluster(), 8);
        EXPECT_LE(config.splits, matmul_k_steps({.type = DType::bf16, .k = k}));
      }
}

}  // namespace
}  // namespace jaxator::testing
