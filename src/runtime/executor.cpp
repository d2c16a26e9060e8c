#include "jaxator/executor.h"

#include <algorithm>
#include <atomic>

namespace jaxator {

void SerialExecutor::parallel_for(int64_t tasks, int64_t, TaskRef body) {
  for (int64_t task = 0; task < tasks; task++) body(task, 0);
}

struct ThreadPool::Job {
  TaskRef body;
  int64_t tasks;
  int64_t slots;
  std::atomic<int64_t> next_task{0};
  std::atomic<int64_t> next_slot{0};

  void run() {
    const int64_t slot = next_slot.fetch_add(1, std::memory_order_relaxed);
    if (slot >= slots) return;
    for (int64_t task; (task = next_task.fetch_add(1, std::memory_order_relaxed)) < tasks;) body(task, slot);
  }
};

ThreadPool::ThreadPool(int threads) {
  for (int i = 1; i < threads; i++) threads_.emplace_back([this] { worker(); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::worker() {
  uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return stop_ || (job_ != nullptr && generation_ != seen); });
    if (stop_) return;
    seen = generation_;
    Job* job = job_;
    users_++;
    lock.unlock();
    job->run();
    lock.lock();
    if (--users_ == 0) idle_.notify_all();
  }
}

void ThreadPool::parallel_for(int64_t tasks, int64_t slots, TaskRef body) {
  if (threads_.empty() || tasks <= 1 || slots <= 1) {
    for (int64_t task = 0; task < tasks; task++) body(task, 0);
    return;
  }
  std::lock_guard turn(submit_);
  Job job{body, tasks, slots};
  {
    std::lock_guard lock(mutex_);
    job_ = &job;
    generation_++;
  }
  wake_.notify_all();
  job.run();
  // No worker may still hold the job when it leaves this frame.
  std::unique_lock lock(mutex_);
  job_ = nullptr;
  idle_.wait(lock, [&] { return users_ == 0; });
}

}  // namespace jaxator
