/// @file
/// Matrix products, to be read beside the register-only peak of attention_bench.cpp.
#include <benchmark/benchmark.h>

#include <cstdint>

#include "benchmarks/aligned.h"
#include "jaxator/matmul.h"

namespace jaxator {
namespace {

constexpr int64_t kColumns = 2048, kDepth = 2048;

void product(benchmark::State& state) {
  ThreadPool pool(static_cast<int>(state.range(0)));
  const MatmulDesc desc{.type = state.range(1) != 0 ? DType::bf16 : DType::f32,
                        .out_type = state.range(1) != 0 ? DType::bf16 : DType::f32,
                        .m = state.range(2),
                        .n = kColumns,
                        .k = kDepth,
                        .transpose_a = state.range(3) % 2 != 0,
                        .transpose_b = state.range(3) / 2 != 0};
  const int64_t slots = matmul_slots(desc), words = size_of(desc.type) / 2;
  const Aligned<uint16_t> a(desc.m * desc.k * words, 0x3f80), b(desc.k * desc.n * words, 0x3f80);
  Aligned<uint16_t> out(desc.m * desc.n * words);
  Aligned<char> scratch(matmul_scratch_bytes(desc, slots));
  for (auto _ : state) matmul(desc, {.a = a.data(), .b = b.data(), .out = out.data(), .scratch = scratch.data()}, slots, pool);
  state.counters["GFLOPS"] =
      benchmark::Counter(2e-9 * double(desc.m * desc.n * desc.k), benchmark::Counter::kIsIterationInvariantRate);
}

BENCHMARK(product)
    ->Name("matmul")
    ->ArgNames({"threads", "bf16", "m", "transposed"})
    ->ArgsProduct({{1, 2}, {0, 1}, {16, 1024}, {0, 3}})
    ->UseRealTime();

}  // namespace
}  // namespace jaxator
