/// @file
/// SwiGLU, to be read beside `copy` of rms_norm_bench.cpp (same rate: every byte read or written once).
#include <benchmark/benchmark.h>

#include <cstdint>

#include "benchmarks/aligned.h"
#include "jaxator/swiglu.h"

namespace jaxator {
namespace {

constexpr int64_t kRows = 2048, kColumns = 8192, kElements = kRows * kColumns;

SwigluDesc desc_of(const benchmark::State& state) {
  return {.type = DType::bf16, .rows = kRows, .columns = kColumns, .packed = state.range(1) != 0};
}

void forward(benchmark::State& state) {
  ThreadPool pool(static_cast<int>(state.range(0)));
  const SwigluDesc desc = desc_of(state);
  const Aligned<uint16_t> gate(2 * kElements, 0x3f80);
  Aligned<uint16_t> y(kElements);
  for (auto _ : state) swiglu_forward(desc, {.gate = gate.data(), .up = gate.data() + kElements, .y = y.data()}, pool);
  state.SetBytesProcessed(state.iterations() * 3 * kElements * 2);
}

void backward(benchmark::State& state) {
  ThreadPool pool(static_cast<int>(state.range(0)));
  const SwigluDesc desc = desc_of(state);
  const Aligned<uint16_t> gate(2 * kElements, 0x3f80), dy(kElements, 0x3f80);
  Aligned<uint16_t> dgate(2 * kElements);
  for (auto _ : state)
    swiglu_backward(desc,
                    {.gate = gate.data(),
                     .up = gate.data() + kElements,
                     .dy = dy.data(),
                     .dgate = dgate.data(),
                     .dup = dgate.data() + kElements},
                    pool);
  state.SetBytesProcessed(state.iterations() * 5 * kElements * 2);
}

BENCHMARK(forward)->Name("swiglu_forward")->ArgNames({"threads", "packed"})->ArgsProduct({{1, 2}, {0, 1}})->UseRealTime();
BENCHMARK(backward)->Name("swiglu_backward")->ArgNames({"threads", "packed"})->ArgsProduct({{1, 2}, {0, 1}})->UseRealTime();

}  // namespace
}  // namespace jaxator
