/// @file
/// Rows of a result cut into tasks so that no two of them take the first touch of one huge page.
#pragma once

#include <algorithm>
#include <cstdint>

namespace jaxator {

inline constexpr int64_t kHugePage = 2 << 20;  // bytes, on every x86-64 Linux

struct RowRange {
  int64_t begin, end;
};

/// Tasks of a fixed number of rows, or those of one huge page each: a task then has the rows that begin in its page.
///
/// Results past the caches come in fresh memory (src/ffi/call.cpp asks for huge pages). The system clears a whole page before it
/// looks whether another thread has done so, so two threads that begin in one page clear it twice: 32 MiB, two threads of a
/// Zen 5, tasks of 512 KiB 3.1 ms, of 2 MiB across pages 2.7, of one page each 2.2.
class RowTasks {
 public:
  RowTasks(const void* result, int64_t row_bytes, int64_t rows, int64_t task_rows, bool by_pages)
      : row_bytes_(std::max<int64_t>(1, row_bytes)),
        rows_(rows),
        task_rows_(task_rows),
        by_pages_(by_pages),
        before_(static_cast<int64_t>(reinterpret_cast<uintptr_t>(result) % kHugePage)) {}

  int64_t count() const {
    if (by_pages_) return rows_ == 0 ? 0 : (before_ + rows_ * row_bytes_ - 1) / kHugePage + 1;
    return (rows_ + task_rows_ - 1) / task_rows_;
  }

  RowRange rows_of(int64_t task) const { return {first(task), first(task + 1)}; }

 private:
  int64_t first(int64_t task) const {
    if (!by_pages_) return std::min(rows_, task * task_rows_);
    const int64_t bytes = std::max<int64_t>(0, task * kHugePage - before_);
    return std::min(rows_, (bytes + row_bytes_ - 1) / row_bytes_);
  }

  int64_t row_bytes_, rows_, task_rows_;
  bool by_pages_;
  int64_t before_;  // bytes of the first page before the result
};

}  // namespace jaxator
