/// @file
/// Causal grouped-query attention, forward and backward, on a thread pool of the program's own. Checks one entry of each
/// gradient against finite differences, then states the speed. Arguments: sequence length, threads.
#include <jaxator/attention.h>
#include <jaxator/cpu.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace {

using jaxator::AttentionDesc;
using Floats = std::vector<float>;

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
using Scratch = std::unique_ptr<void, Free>;

/// Kernels allocate nothing: the caller brings scratch, aligned to a cache line.
Scratch make_scratch(int64_t bytes) { return Scratch(std::aligned_alloc(64, static_cast<size_t>((bytes + 63) / 64 * 64))); }

struct Problem {
  AttentionDesc desc;
  int64_t slots;  // tasks at a time, each with its own piece of scratch
  Floats q, k, v, out, lse, dout, dq, dk, dv;
  Scratch forward_scratch, backward_scratch;

  explicit Problem(const AttentionDesc& d) : desc(d), slots(jaxator::attention_slots(d)) {
    const int64_t queries = d.batch * d.query_length * d.heads, keys = d.batch * d.key_length * d.kv_heads;
    q.resize(queries * d.head_size);
    k.resize(keys * d.head_size);
    v.resize(keys * d.value_size);
    out.resize(queries * d.value_size);
    lse.resize(queries);
    dout.resize(out.size());
    dq.resize(q.size());
    dk.resize(k.size());
    dv.resize(v.size());
    std::mt19937_64 random(0);
    std::normal_distribution<float> normal;
    for (Floats* array : {&q, &k, &v, &dout}) std::generate(array->begin(), array->end(), [&] { return normal(random); });
    forward_scratch = make_scratch(jaxator::attention_forward_scratch_bytes(d, slots));
    backward_scratch = make_scratch(jaxator::attention_backward_scratch_bytes(d, slots));
  }

  void forward(jaxator::Executor& executor) {
    jaxator::AttentionForwardArgs args;
    args.q = q.data(), args.k = k.data(), args.v = v.data();
    args.out = out.data(), args.lse = lse.data(), args.scratch = forward_scratch.get();
    jaxator::attention_forward(desc, args, slots, executor);
  }

  void backward(jaxator::Executor& executor) {
    jaxator::AttentionBackwardArgs args;
    args.q = q.data(), args.k = k.data(), args.v = v.data();
    args.out = out.data(), args.lse = lse.data(), args.dout = dout.data();
    args.dq = dq.data(), args.dk = dk.data(), args.dv = dv.data(), args.scratch = backward_scratch.get();
    jaxator::attention_backward(desc, args, slots, executor);
  }

  /// The scalar whose gradient by `out` is dout.
  double objective(jaxator::Executor& executor) {
    forward(executor);
    double sum = 0;
    for (size_t i = 0; i < out.size(); i++) sum += double(out[i]) * dout[i];
    return sum;
  }
};

/// Compares gradient[i] with the central difference of the objective by operand[i].
bool agrees(const char* name, Problem& problem, Floats& operand, const Floats& gradient, jaxator::Executor& executor) {
  constexpr float kStep = 1e-2f;       // error of the difference: step^2 / 6 times the third derivative, about 1e-5
  constexpr double kTolerance = 2e-3;  // of the largest entry; rounding of out adds about 1e-4
  const size_t i = operand.size() / 2 + 3;
  const float value = operand[i];
  operand[i] = value + kStep;
  const double above = problem.objective(executor);
  operand[i] = value - kStep;
  const double below = problem.objective(executor);
  operand[i] = value;
  const double difference = (above - below) / (2 * kStep);
  const double largest =
      std::abs(*std::max_element(gradient.begin(), gradient.end(), [](float a, float b) { return std::abs(a) < std::abs(b); }));
  const bool good = std::abs(gradient[i] - difference) <= kTolerance * largest;
  std::printf("  d%s[%zu] = %+.5f, finite difference %+.5f: %s\n", name, i, gradient[i], difference, good ? "agree" : "DIFFER");
  return good;
}

/// Best of several runs, in seconds.
template <class Body> double seconds(Body&& body) {
  double best = std::numeric_limits<double>::infinity();
  for (int run = 0; run < 5; run++) {
    const auto start = std::chrono::steady_clock::now();
    body();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

bool run(int64_t length, int threads) {
  AttentionDesc desc;
  desc.batch = 1;
  desc.query_length = desc.key_length = length;
  desc.heads = 8;
  desc.kv_heads = 2;
  desc.head_size = desc.value_size = 64;
  desc.scale = 1 / std::sqrt(64.0f);
  desc.causal = true;

  jaxator::ThreadPool pool(threads);
  Problem problem(desc);
  std::printf("attention, causal, float32: q [1,%lld,8,64], k and v [1,%lld,2,64], %d threads, %s\n",
              static_cast<long long>(length), static_cast<long long>(length), threads, jaxator::name_of(jaxator::cpu_isa()));

  problem.forward(pool);
  problem.backward(pool);
  bool good = true;
  good &= agrees("q", problem, problem.q, problem.dq, pool);
  good &= agrees("k", problem, problem.k, problem.dk, pool);
  good &= agrees("v", problem, problem.v, problem.dv, pool);

  // Two products of useful query-key pairs forward, five backward; a multiplication and an addition each.
  const double pairs = static_cast<double>(jaxator::attention_visited(desc).useful), product = 2 * pairs * 64;
  const double forward = seconds([&] { problem.forward(pool); }), backward = seconds([&] { problem.backward(pool); });
  std::printf("  forward  %8.3f ms  %6.1f GF/s\n", forward * 1e3, 2 * product / forward * 1e-9);
  std::printf("  backward %8.3f ms  %6.1f GF/s\n", backward * 1e3, 5 * product / backward * 1e-9);
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t length = argc > 1 ? std::atoll(argv[1]) : 1024;
  const int threads = argc > 2 ? std::atoi(argv[2]) : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  try {
    return run(length, threads) ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
