/// @file
/// RMS normalisation beside memcpy of the same bytes: `jaxator_benchmarks --benchmark_enable_random_interleaving=true
/// --benchmark_repetitions=9`. The rate counts every byte read or written once.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstring>

#include "benchmarks/aligned.h"
#include "jaxator/rms_norm.h"

namespace jaxator {
namespace {

constexpr int64_t kRows = 4096, kColumns = 4096, kBytes = kRows * kColumns * 2;

Aligned<uint16_t> ones() { return Aligned<uint16_t>(kRows * kColumns, 0x3f80); }

void count_bytes(benchmark::State& state, int64_t arrays) { state.SetBytesProcessed(state.iterations() * arrays * kBytes); }

void copy(benchmark::State& state) {
  ThreadPool pool(static_cast<int>(state.range(0)));
  const Aligned<uint16_t> x = ones();
  Aligned<uint16_t> y(x.size());
  const int64_t tasks = state.range(0), share = kRows * kColumns / tasks;
  auto body = [&](int64_t task, int64_t) { std::memcpy(&y[task * share], &x[task * share], share * 2); };
  for (auto _ : state) pool.parallel_for(tasks, tasks, body);
  count_bytes(state, 2);
}

void forward(benchmark::State& state) {
  ThreadPool pool(static_cast<int>(state.range(0)));
  const Aligned<uint16_t> x = ones();
  Aligned<uint16_t> y(x.size());
  const Aligned<float> weight(kColumns, 1.0f);
  const RmsNormDesc desc{.type = DType::bf16, .rows = kRows, .columns = kColumns, .has_weight = true};
  for (auto _ : state)
    rms_norm_forward(desc, {.x = x.data(), .residual = nullptr, .weight = weight.data(), .y = y.data(), .sum = nullptr}, pool);
  count_bytes(state, 2);
}

void backward(benchmark::State& state) {
  ThreadPool pool(static_cast<int>(state.range(0)));
  const Aligned<uint16_t> x = ones(), dy = ones();
  Aligned<uint16_t> dx(x.size());
  const Aligned<float> weight(kColumns, 1.0f);
  Aligned<float> dweight(kColumns);
  const RmsNormDesc desc{.type = DType::bf16, .rows = kRows, .columns = kColumns, .has_weight = true};
  Aligned<float> scratch(rms_norm_scratch_floats(desc));
  for (auto _ : state)
    rms_norm_backward(desc,
                      {.sum = x.data(),
                       .weight = weight.data(),
                       .dy = dy.data(),
                       .dsum = nullptr,
                       .dx = dx.data(),
                       .dweight = dweight.data(),
                       .scratch = scratch.data()},
                      pool);
  count_bytes(state, 3);
}

BENCHMARK(copy)->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK(forward)->Name("rms_norm_forward")->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK(backward)->Name("rms_norm_backward")->Arg(1)->Arg(2)->UseRealTime();

}  // namespace
}  // namespace jaxator
