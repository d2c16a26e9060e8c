/// @file
/// Runs the index arithmetic of one block for all its threads, to see which elements of shared memory each touches and when.
/// Arguments get numbers that they may have; what is read from memory stays unknown, and nothing is concluded from it: what is
/// found is found in an execution that may happen.
#pragma once

#include <functional>
#include <map>

#include "src/flight/passes/precompiled.h"
#include "src/flight/passes/shadow.h"

namespace jaxator::flight {

/// One access of shared memory by the threads of a block.
struct AccessSeen {
  mlir::Operation* op;
  ViewType view;
  bool write;
  int64_t threads;
  /// In elements of the array; -1 where the thread does not take part.
  std::function<int64_t(int64_t thread, int64_t element)> element;
};

class Interpreter {
 public:
  explicit Interpreter(mlir::func::FuncOp function);

  /// Called for each access of a thread's view whose addresses are known.
  void on_access(std::function<void(const AccessSeen&)> visit) { visit_ = std::move(visit); }

  /// The first conflict, if one is found before the budget is spent.
  std::optional<Conflict> run();

 private:
  using Operation = mlir::Operation;
  using Value = mlir::Value;

  /// Numbers of a value: one for all threads, or one for each; of a vector as many for each element. Empty: unknown.
  struct Numbers {
    std::vector<int64_t> at;
    bool uniform = true;
    int64_t elements = 1;

    bool known() const { return !at.empty(); }
    int64_t get(int64_t thread, int64_t element = 0) const {
      return at[size_t((uniform ? 0 : thread * elements) + (elements == 1 ? 0 : element))];
    }
  };
  using Mask = std::vector<char>;
  /// Elements of a view.
  struct Place {
    Operation* array = nullptr;  // nullptr: not in shared memory, or unknown
    Numbers offset;
    int64_t count = 0;
    bool uniform = true;            // the layout has the same numbers for all threads
    std::vector<int64_t> elements;  // for one thread or for each

    int64_t at(int64_t thread, int64_t element) const {
      return offset.get(thread) + elements[size_t((uniform ? 0 : thread * count) + element)];
    }
  };

  bool spent() const { return shadow_.conflict() || work_ + shadow_.work() > kBudget; }
  void block(mlir::Block& body, const Mask& mask);
  void step(Operation& op, const Mask& mask);
  void control(mlir::scf::ForOp op, const Mask& mask);
  void control(mlir::scf::WhileOp op, const Mask& mask);
  void control(mlir::scf::IfOp op, const Mask& mask);
  bool memory(Operation& op, const Mask& mask);
  void thread_access(Operation& op, Value view, Value mask_value, const Mask& mask, int kind);
  void tile_access(Operation& op, Value view, const layout::Layout* spread, const Mask& mask, int kind);
  void touch(Operation& op, const Place& place, int64_t thread, int64_t element, int by, int kind);
  Place place_of(Value view);
  const std::vector<int64_t>& static_places(llvm::StringRef layout);
  const std::vector<int64_t>& elements_of_threads(const layout::Layout& spread);
  void arithmetic(Operation& op);
  Numbers combine(const Numbers& a, const Numbers& b, int64_t elements, llvm::function_ref<int64_t(int64_t, int64_t)> number);

  const Numbers& get(Value value);
  void set(Value value, Numbers numbers) { values_[value] = std::move(numbers); }
  void assign(mlir::ValueRange to, const std::vector<Numbers>& from, const Mask& mask);
  std::vector<Numbers> gather(mlir::ValueRange values);
  Numbers constant(int64_t number) { return {{number}, true, 1}; }
  bool all(const Mask& mask) const;
  bool none(const Mask& mask) const;

  static constexpr int64_t kBudget = 1'000'000;  // 10 ms

  mlir::func::FuncOp function_;
  int64_t extents_[3], threads_;
  llvm::DenseMap<Value, Numbers> values_;
  Shadow shadow_;
  std::function<void(const AccessSeen&)> visit_;
  std::map<std::string, std::vector<int64_t>> tables_;  // by the text of a layout
  int64_t work_ = 0;
};

}  // namespace jaxator::flight
