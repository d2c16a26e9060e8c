#include <atomic>
#include <thread>

#include "jaxator/attention.h"
#include "jaxator/rms_norm.h"
#include "tests/cpp/testing.h"

namespace jaxator::testing {
namespace {

TEST(ThreadPool, EveryTaskRunsOnceAndSlotsAreNotShared) {
  for (int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (int64_t slots : {1, 2, 9}) {
      constexpr int64_t kTasks = 1000;
      std::vector<std::atomic<int>> runs(kTasks), users(slots);
      std::atomic<bool> shared{false};
      auto body = [&](int64_t task, int64_t slot) {
        if (slot < 0 || slot >= slots || users[slot].fetch_add(1) != 0) shared = true;
        runs[task].fetch_add(1);
        users[slot].fetch_sub(1);
      };
      pool.parallel_for(kTasks, slots, body);
      EXPECT_FALSE(shared) << threads << " threads, " << slots << " slots";
      for (const std::atomic<int>& count : runs) ASSERT_EQ(count.load(), 1);
    }
    auto never = [](int64_t, int64_t) { FAIL(); };
    pool.parallel_for(0, 4, never);
  }
}

/// One caller's work: both ops, with the results as bytes.
struct Work {
  TestArray x, q, k, v;

  Work() : Work(std::mt19937_64(5)) {}
  explicit Work(std::mt19937_64 random)
      : x(TestArray::normal(DType::bf16, 64 * 256, random)),
        q(TestArray::normal(DType::bf16, 200 * 4 * 32, random)),
        k(TestArray::normal(DType::bf16, 200 * 2 * 32, random)),
        v(TestArray::normal(DType::bf16, 200 * 2 * 32, random)) {}

  std::vector<char> run(Executor& executor) const {
    TestArray y(DType::bf16, x.size()), out(DType::bf16, q.size()), lse(DType::f32, 200 * 4);
    rms_norm_forward({.type = DType::bf16, .rows = 64, .columns = 256},
                     {.x = x.data(), .residual = nullptr, .weight = nullptr, .y = y.data(), .sum = nullptr}, executor);
    AttentionDesc desc;
    desc.type = DType::bf16;
    desc.batch = 1, desc.query_length = desc.key_length = 200;
    desc.heads = 4, desc.kv_heads = 2, desc.head_size = desc.value_size = 32;
    desc.causal = true;
    const int64_t slots = attention_slots(desc);
    std::vector<char> scratch(attention_forward_scratch_bytes(desc, slots) + 64);
    AttentionForwardArgs args;
    args.q = q.data(), args.k = k.data(), args.v = v.data(), args.out = out.data(), args.lse = static_cast<float*>(lse.data());
    args.scratch = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64);
    attention_forward(desc, args, slots, executor);
    std::vector<char> bytes = y.bytes();
    bytes.insert(bytes.end(), out.bytes().begin(), out.bytes().end());
    bytes.insert(bytes.end(), lse.bytes().begin(), lse.bytes().end());
    return bytes;
  }
};

// First in this file's order to touch the kernels when run alone: every thread then opens them at once.
TEST(Runtime, CallersOnSeveralThreadsShareAPool) {
  const Work work;
  ThreadPool pool(3);
  std::vector<std::vector<char>> results(6);
  std::vector<std::thread> callers;
  for (size_t i = 0; i < results.size(); i++)
    callers.emplace_back([&, i] {
      SerialExecutor serial;
      Executor& executor = i % 2 == 0 ? static_cast<Executor&>(pool) : serial;
      for (int repeat = 0; repeat < 10; repeat++) results[i] = work.run(executor);
    });
  for (std::thread& caller : callers) caller.join();
  for (const std::vector<char>& result : results) EXPECT_EQ(result, results[0]);
}

TEST(Runtime, InstructionSetsAreForcedAndRefused) {
  const std::vector<CpuIsa> supported = cpu_supported();
  ASSERT_FALSE(supported.empty());
  const CpuIsa chosen = cpu_isa();
  EXPECT_EQ(chosen, supported.back());
  for (int i = 0; i < kCpuIsaCount; i++) {
    const CpuIsa isa = static_cast<CpuIsa>(i);
    if (std::find(supported.begin(), supported.end(), isa) != supported.end()) {
      cpu_force_isa(isa);
      EXPECT_EQ(cpu_isa(), isa);
    } else {
      EXPECT_THROW(cpu_force_isa(isa), UnsupportedError) << name_of(isa);
    }
  }
  cpu_reset_isa();
  EXPECT_EQ(cpu_isa(), chosen);
}

}  // namespace
}  // namespace jaxator::testing
