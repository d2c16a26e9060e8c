#include "src/ffi/ffi.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>

namespace jaxator::ffi {
namespace {

/// Shared with workers that may start after the caller has left: those find no task and must not touch the body.
struct Job {
  TaskRef body;
  const int64_t tasks, slots;
  std::atomic<int64_t> next_task{0}, next_slot{0}, done{0};

  void run() {
    const int64_t slot = next_slot.fetch_add(1, std::memory_order_relaxed);
    if (slot >= slots) return;
    int64_t finished = 0;
    for (int64_t task; (task = next_task.fetch_add(1, std::memory_order_relaxed)) < tasks; finished++) body(task, slot);
    if (finished != 0 && done.fetch_add(finished, std::memory_order_acq_rel) + finished == tasks) done.notify_all();
  }
};

}  // namespace

void XlaExecutor::parallel_for(int64_t tasks, int64_t slots, TaskRef body) {
  // num_threads() counts virtual devices' pools too (8 on two cores with 8 devices), so cap by the cores.
  static const int64_t cores = std::max<int64_t>(1, std::thread::hardware_concurrency());
  const int64_t helpers = std::min({tasks, slots, cores, pool_.num_threads()}) - 1;
  if (helpers <= 0) {
    for (int64_t task = 0; task < tasks; task++) body(task, 0);
    return;
  }
  auto job = std::make_shared<Job>(body, tasks, slots);
  for (int64_t i = 0; i < helpers; i++) pool_.Schedule([job] { job->run(); });
  job->run();
  // Every task is taken by now; wait only for those that are running, never for a worker to be scheduled.
  for (int64_t done; (done = job->done.load(std::memory_order_acquire)) < tasks;) job->done.wait(done, std::memory_order_acquire);
}

}  // namespace jaxator::ffi
