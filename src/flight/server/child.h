/// @file
/// The process of one request, forked from the warm one. Crashes and limits end it and nothing else.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>

#include "src/flight/server/protocol.h"

namespace jaxator::flight {

class Child {
 public:
  using Clock = std::chrono::steady_clock;

  /// Forks. `base_bytes`: address space of the warm process, which is not the request's.
  Child(Header header, mlir::MLIRContext& context, int64_t base_bytes);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  bool started() const { return pid_ > 0; }
  int descriptor() const { return descriptor_; }
  Clock::time_point deadline() const { return deadline_; }
  /// Takes what it has written. False: it has ended.
  bool read();
  /// It took too long.
  void stop();
  /// After its end: its answer, or what became of it.
  std::string finish();

 private:
  struct Place;  // memory that both processes see

  [[noreturn]] void work(mlir::MLIRContext& context, int64_t base_bytes, int out);
  void limit(int64_t base_bytes) const;
  Failure failure(const char* kind, const std::string& message) const;
  std::string cause_of_death(int status, const char*& kind) const;

  Header header_;
  Place* place_ = nullptr;
  pid_t pid_ = -1;
  int descriptor_ = -1;
  Clock::time_point start_, deadline_;
  bool stopped_ = false;
  std::string written_;
};

}  // namespace jaxator::flight
