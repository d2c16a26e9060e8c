/// @file
/// Layer normalisation, to be read beside `copy` of rms_norm_bench.cpp (same rate: every byte read or written once).
#include <benchmark/benchmark.h>

#include <cstdint>

#include "benchmarks/aligned.h"
#include "jaxator/layer_norm.h"

namespace jaxator {
namespace {

constexpr int64_t kRows = 4096, kColumns = 4096, kBytes = kRows * kColumns * 2;
constexpr LayerNormDesc kDesc{.type = DType::bf16, .rows = kRows, .columns = kColumns, .has_weight = true, .has_bias = true};

void forward(benchmark::State& state) {
  ThreadPool pool(static_cast<int>(state.range(0)));
  const Aligned<uint16_t> x(kRows * kColumns, 0x3f80);
  Aligned<uint16_t> y(x.size());
  const Aligned<float> weight(kColumns, 1.0f), bias(kColumns, 1.0f);
  for (auto _ : state)
    layer_norm_forward(kDesc, {.x = x.data(), .weight = weight.data(), .bias = bias.data(), .y = y.data()}, pool);
  state.SetBytesProcessed(state.iterations() * 2 * kBytes);
}

void backward(benchmark::State& state) {
  ThreadPool pool(static_cast<int>(state.range(0)));
  const Aligned<uint16_t> x(kRows * kColumns, 0x3f80), dy(x.size(), 0x3f80);
  Aligned<uint16_t> dx(x.size());
  const Aligned<float> weight(kColumns, 1.0f);
  Aligned<float> dweight(kColumns), dbias(kColumns), scratch(layer_norm_scratch_floats(kDesc));
  for (auto _ : state)
    layer_norm_backward(kDesc,
                        {.x = x.data(),
                         .weight = weight.data(),
                         .dy = dy.data(),
                         .dx = dx.data(),
                         .dweight = dweight.data(),
                         .dbias = dbias.data(),
                         .scratch = scratch.data()},
                        pool);
  state.SetBytesProcessed(state.iterations() * 3 * kBytes);
}

BENCHMARK(forward)->Name("layer_norm_forward")->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK(backward)->Name("layer_norm_backward")->Arg(1)->Arg(2)->UseRealTime();

}  // namespace
}  // namespace jaxator
