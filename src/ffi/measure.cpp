/// @file
/// The limits that kernels are compared with, each measured with all threads.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>

#include "jaxator/executor.h"
#include "src/ffi/c_api.h"
#include "src/runtime/cpu_kernels.h"
#include "src/runtime/cuda/measure.h"
#include "src/runtime/cuda/module.h"

/// Nanoseconds of one memcpy dealt to `threads` threads.
JAXATOR_C_API int64_t jaxator_copy_nanoseconds(int64_t to, int64_t from, int64_t bytes, int64_t threads) {
  using Clock = std::chrono::steady_clock;
  jaxator::ThreadPool pool(static_cast<int>(threads));
  const int64_t share = (bytes + threads - 1) / threads;
  auto body = [&](int64_t task, int64_t) {
    const int64_t begin = task * share, size = std::min(share, bytes - begin);
    if (size > 0)
      std::memcpy(reinterpret_cast<char*>(to) + begin, reinterpret_cast<const char*>(from) + begin, static_cast<size_t>(size));
  };
  const auto start = Clock::now();
  pool.parallel_for(threads, threads, body);
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
}

/// Flops a second of products that never leave the registers, float32 FMA or bfloat16 dot, summed over `threads` threads that
/// run for about `microseconds` at the same time. 0 where the instruction is missing.
JAXATOR_C_API int64_t jaxator_peak_flops(int64_t bf16_dot, int64_t microseconds, int64_t threads) {
  jaxator::ThreadPool pool(static_cast<int>(threads));
  const jaxator::CpuKernels& kernels = jaxator::cpu_kernels();
  std::atomic<int64_t> total{0};
  auto body = [&](int64_t, int64_t) {
    total += static_cast<int64_t>(kernels.peak_flops(bf16_dot != 0, static_cast<double>(microseconds) * 1e-6));
  };
  pool.parallel_for(threads, threads, body);
  return total;
}

// On a GPU, by its device number. -1 where the driver refuses.

namespace {

template <class Measure> int64_t nanoseconds_of(Measure&& measure) {
  try {
    return static_cast<int64_t>(1e9 * measure());
  } catch (const std::exception&) {
    return -1;
  }
}

}  // namespace

/// Nanoseconds of `count` copies in the device's memory.
JAXATOR_C_API int64_t jaxator_cuda_copy_nanoseconds(int64_t device, uint64_t to, uint64_t from, int64_t bytes, int64_t count) {
  return nanoseconds_of([&] { return jaxator::cuda::copy_seconds(static_cast<int>(device), to, from, bytes, count); });
}

/// Nanoseconds of `count` launches of bfloat16 products that never leave the chip. `out`: 256 floats a multiprocessor.
JAXATOR_C_API int64_t jaxator_cuda_peak_nanoseconds(int64_t device, uint64_t out, int64_t count) {
  return nanoseconds_of([&] { return jaxator::cuda::peak_seconds(static_cast<int>(device), out, count); });
}

/// Floating-point operations of one of those launches.
JAXATOR_C_API int64_t jaxator_cuda_peak_flops(int64_t device) {
  try {
    return static_cast<int64_t>(jaxator::cuda::peak_flops(static_cast<int>(device)));
  } catch (const std::exception&) {
    return -1;
  }
}

/// What loading kernels has cost this process: 0: how many were loaded, 1: nanoseconds in all, 2: of the slowest.
JAXATOR_C_API int64_t jaxator_cuda_load_times(int64_t which) {
  const jaxator::cuda::LoadTimes times = jaxator::cuda::load_times();
  return which == 0 ? times.functions : which == 1 ? times.nanoseconds : times.most;
}
