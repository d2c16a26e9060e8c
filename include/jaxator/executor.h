/// @file
/// How kernels use threads. Kernels create no thread: they split their work into tasks and hand them to an Executor. A
/// program brings its own (XLA's pool in the JAX bridge, its thread pool in a server) or takes one of the two below.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace jaxator {

/// Non-owning reference to a callable `void(int64_t task, int64_t slot)`; valid for the duration of one parallel_for.
class TaskRef {
 public:
  template <class Body>
    requires std::is_invocable_v<Body&, int64_t, int64_t>
  TaskRef(Body& body)  // NOLINT: implicit by design, so that a lambda can be passed
      : context_(const_cast<void*>(static_cast<const void*>(&body))),
        call_([](void* context, int64_t task, int64_t slot) { (*static_cast<Body*>(context))(task, slot); }) {}

  void operator()(int64_t task, int64_t slot) const { call_(context_, task, slot); }

 private:
  void* context_;
  void (*call_)(void*, int64_t, int64_t);
};

/// Runs independent tasks. Results of Jaxator's kernels never depend on which executor runs them.
class Executor {
 public:
  virtual ~Executor() = default;

  /// Calls body(task, slot) once for each task in [0, tasks) and returns when all are done. Calls that run at the same
  /// time have different slots, and every slot is in [0, slots): a kernel owns one piece of scratch for each slot.
  /// Tasks start in ascending order, so the longest go first. The calling thread takes tasks too.
  virtual void parallel_for(int64_t tasks, int64_t slots, TaskRef body) = 0;
};

/// Runs every task on the calling thread, in order.
class SerialExecutor final : public Executor {
 public:
  void parallel_for(int64_t tasks, int64_t slots, TaskRef body) override;
};

/// A fixed set of threads, for programs that have none. Safe to use from several threads; calls then take turns.
class ThreadPool final : public Executor {
 public:
  /// `threads` counts the calling thread: 1 starts none.
  explicit ThreadPool(int threads = static_cast<int>(std::thread::hardware_concurrency()));
  ~ThreadPool() override;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  void parallel_for(int64_t tasks, int64_t slots, TaskRef body) override;

 private:
  struct Job;
  void worker();

  std::mutex submit_;  // one parallel_for at a time
  std::mutex mutex_;   // guards job_, generation_, stop_
  std::condition_variable wake_;
  Job* job_ = nullptr;
  uint64_t generation_ = 0;
  int users_ = 0;  // workers that hold job_
  bool stop_ = false;
  std::condition_variable idle_;
  std::vector<std::thread> threads_;
};

}  // namespace jaxator
