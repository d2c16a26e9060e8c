/// @file
/// Who touched which element of shared memory since the last barrier.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "llvm/ADT/MapVector.h"
#include "mlir/IR/Operation.h"

namespace jaxator::flight {

/// Two accesses of one element, of which one writes, by different threads and without a barrier between them.
struct Conflict {
  mlir::Operation *earlier, *later;
  int64_t element;
  int earlier_thread, later_thread;
  enum Kind { write_read, read_write, write_write, unfinished } kind;
};

class Shadow {
 public:
  static constexpr int kNobody = -1, kSeveral = -2;

  /// An array of `count` elements.
  void add(mlir::Operation* array, int64_t count) { arrays_[array].resize(size_t(count)); }
  /// Only the first conflict is kept.
  void access(mlir::Operation* array, int64_t element, mlir::Operation* op, int thread, bool write);
  /// A copy that writes at some time until it has been waited for.
  void start_copy(mlir::Operation* array, int64_t element, mlir::Operation* op, int thread);
  void commit() { group_++; }
  /// Groups but the last `pending` are done. Other threads see them after a barrier.
  void wait(int64_t pending);
  void barrier() { epoch_++; }

  const std::optional<Conflict>& conflict() const { return conflict_; }
  /// Of all arrays.
  int64_t elements() const {
    int64_t sum = 0;
    for (const auto& array : arrays_) sum += int64_t(array.second.size());
    return sum;
  }
  /// Elements that were looked at.
  int64_t work() const { return work_; }

 private:
  struct Element {
    int32_t write_epoch = 0, read_epoch = 0;
    int32_t writer = kNobody, reader = kNobody;
    mlir::Operation *write = nullptr, *read = nullptr;
    int32_t unfinished = 0;
  };
  struct Copy {
    mlir::Operation* array;
    int64_t element;
    mlir::Operation* op;
    int thread;
    int64_t group;
  };

  Element* find(mlir::Operation* array, int64_t element);
  void report(mlir::Operation* earlier, int earlier_thread, mlir::Operation* later, int later_thread, int64_t element,
              Conflict::Kind kind);

  llvm::MapVector<mlir::Operation*, std::vector<Element>> arrays_;
  std::vector<Copy> copies_;
  int32_t epoch_ = 1;
  int64_t group_ = 0, work_ = 0;
  std::optional<Conflict> conflict_;
};

}  // namespace jaxator::flight
