/// @file
/// What a request is told when it fails.
#pragma once

#include <string>
#include <vector>

#include "llvm/Support/JSON.h"
#include "mlir/IR/Location.h"

namespace jaxator::flight {

struct Frame {
  std::string function, file;
  int64_t line = 0, column = 0;
};

/// The user's calls that a location stands for, innermost first.
std::vector<Frame> frames_of(mlir::Location location);

struct Failure {
  const char* kind = "backend";  // diagnostic, backend, time, memory, request
  std::string message;
  std::vector<Frame> frames;
  std::vector<std::string> notes;
};

llvm::json::Value to_json(const std::vector<Frame>& frames);
llvm::json::Value to_json(const Failure& failure);

}  // namespace jaxator::flight
