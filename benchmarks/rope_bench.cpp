/// @file
/// Rotary embedding, to be read beside `copy` of rms_norm_bench.cpp (same rate: every byte read or written once).
#include <benchmark/benchmark.h>

#include <cstdint>

#include "benchmarks/aligned.h"
#include "jaxator/rope.h"

namespace jaxator {
namespace {

constexpr int64_t kTokens = 4096, kColumns = 128;

void rotate(benchmark::State& state) {
  ThreadPool pool(static_cast<int>(state.range(0)));
  const int64_t heads = state.range(1), rows = kTokens * 32 / heads, elements = rows * heads * kColumns;
  const Aligned<uint16_t> x(elements, 0x3f80);
  Aligned<uint16_t> y(elements);
  Aligned<int32_t> positions(rows);
  for (int64_t r = 0; r < rows; r++) positions[r] = static_cast<int32_t>(r);
  const RopeDesc desc{.type = DType::bf16,
                      .rows = rows,
                      .heads = heads,
                      .columns = kColumns,
                      .angle_rows = rows,
                      .interleaved = state.range(2) != 0};
  for (auto _ : state)
    rope(desc, {.x = x.data(), .positions = positions.data(), .cosine = nullptr, .sine = nullptr, .y = y.data()}, pool);
  state.SetBytesProcessed(state.iterations() * 2 * elements * 2);
}

BENCHMARK(rotate)
    ->Name("rope")
    ->ArgNames({"threads", "heads", "interleaved"})
    ->ArgsProduct({{1, 2}, {8, 32}, {0, 1}})
    ->UseRealTime();

}  // namespace
}  // namespace jaxator
