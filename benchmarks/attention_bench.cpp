/// @file
/// Attention beside the register-only peak of one thread, measured before each run: `jaxator_benchmarks
/// --benchmark_filter=attention`. Flops count visible pairs only: 2 (H + V) forward, 2.5 times that backward (five products for
/// two). `of_f32` and `of_bf16` are medians of the runs' shares of the float32 FMA and bfloat16 dot peaks, all threads.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <vector>

#include "jaxator/attention.h"
#include "src/runtime/cpu_kernels.h"

namespace jaxator {
namespace {

/// One thread is timed by its processor time, so that other programs do not count; several by the wall clock.
double now(int threads) {
  timespec time{};
  clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

/// Uniform in +-1 by a multiplicative generator: attention's speed does not depend on the values.
std::vector<uint16_t> bf16_noise(int64_t n, uint64_t seed) {
  std::vector<uint16_t> x(n);
  for (uint16_t& bits : x) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    bits = static_cast<uint16_t>((seed >> 33 & 0x80ff) | 0x3f00);
  }
  return x;
}

struct Shape {
  int64_t length, window;
  AttentionDot dot;
  bool backward;
  int threads;
};

AttentionDesc desc_of(const Shape& shape) {
  AttentionDesc d;
  d.type = DType::bf16;
  d.batch = 1, d.query_length = d.key_length = shape.length;
  d.heads = 8, d.kv_heads = 2, d.head_size = d.value_size = 128;
  d.scale = 0.0883883f;
  d.causal = true;
  d.window_left = shape.window == 0 ? -1 : shape.window - 1;
  d.dot = shape.dot;
  return d;
}

struct Arrays {
  std::vector<uint16_t> q, k, v, dout, out, dq, dk, dv;
  std::vector<float> lse;
  std::unique_ptr<void, void (*)(void*)> scratch;

  Arrays(const AttentionDesc& d, int64_t slots)
      : q(bf16_noise(d.query_length * d.heads * d.head_size, 1)),
        k(bf16_noise(d.key_length * d.kv_heads * d.head_size, 2)),
        v(bf16_noise(d.key_length * d.kv_heads * d.value_size, 3)),
        dout(bf16_noise(d.query_length * d.heads * d.value_size, 4)),
        out(dout.size()),
        dq(q.size()),
        dk(k.size()),
        dv(v.size()),
        lse(d.query_length * d.heads),
        scratch(std::aligned_alloc(
                    64, (std::max(attention_forward_scratch_bytes(d, slots), attention_backward_scratch_bytes(d, slots)) + 63) /
                            64 * 64),
                &std::free) {}

  void forward(const AttentionDesc& d, int64_t slots, Executor& executor) {
    AttentionForwardArgs args;
    args.q = q.data(), args.k = k.data(), args.v = v.data(), args.out = out.data(), args.lse = lse.data(),
    args.scratch = scratch.get();
    attention_forward(d, args, slots, executor);
  }
  void backward(const AttentionDesc& d, int64_t slots, Executor& executor) {
    AttentionBackwardArgs args;
    args.q = q.data(), args.k = k.data(), args.v = v.data(), args.out = out.data(), args.lse = lse.data(),
    args.dout = dout.data();
    args.dq = dq.data(), args.dk = dk.data(), args.dv = dv.data(), args.scratch = scratch.get();
    attention_backward(d, args, slots, executor);
  }
};

void attention(benchmark::State& state, const Shape& shape) {
  const AttentionDesc d = desc_of(shape);
  try {
    attention_describe(d);
  } catch (const UnsupportedError& error) {
    state.SkipWithError(error.what());
    return;
  }
  const int64_t slots = attention_slots(d);
  ThreadPool pool(shape.threads);
  Arrays arrays(d, slots);
  const double flops =
      static_cast<double>(attention_visited(d).useful) * 2 * (d.head_size + d.value_size) * (shape.backward ? 3.5 : 1);
  std::vector<double> rate, of_f32, of_bf16;
  for (auto _ : state) {
    const double f32 = cpu_kernels().peak_flops(false, 0.005) * shape.threads,
                 bf16 = cpu_kernels().peak_flops(true, 0.005) * shape.threads;
    const double start = now(shape.threads);
    arrays.forward(d, slots, pool);
    if (shape.backward) arrays.backward(d, slots, pool);
    const double seconds = now(shape.threads) - start;
    state.SetIterationTime(seconds);
    rate.push_back(flops / seconds);
    of_f32.push_back(flops / seconds / f32);
    of_bf16.push_back(bf16 == 0 ? 0 : flops / seconds / bf16);
  }
  state.counters["GFlops"] = median(rate) / 1e9;
  state.counters["of_f32"] = median(of_f32);
  state.counters["of_bf16"] = median(of_bf16);
}

const bool registered = [] {
  for (AttentionDot dot : {AttentionDot::bf16, AttentionDot::f32})
    for (int64_t length : {2048, 8192})
      for (int64_t window : {0, 256})
        for (bool backward : {false, true})
          for (int threads : {1, 2}) {
            const std::string name = std::string("attention_") + (backward ? "forward_backward/" : "forward/") +
                                     (dot == AttentionDot::bf16 ? "bf16_dot/" : "f32_fma/") + "S" + std::to_string(length) +
                                     (window ? "/window" + std::to_string(window) : "/causal") + "/threads" +
                                     std::to_string(threads);
            const Shape shape{length, window, dot, backward, threads};
            benchmark::RegisterBenchmark(name.c_str(), [shape](benchmark::State& state) { attention(state, shape); })
                ->UseManualTime()
                ->Unit(benchmark::kMillisecond);
          }
  return true;
}();

}  // namespace
}  // namespace jaxator
