/// @file
/// One request: text IR to code. It may end the process that it runs in: LLVM's fatal errors cannot be returned from.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/JSON.h"
#include "src/flight/codegen/failure.h"
#include "src/flight/target.h"

namespace mlir {
class MLIRContext;
}

namespace jaxator::flight {

struct Options {
  double time_limit_s = 60;
  int64_t memory_limit_mb = 2048;
  bool dump = false;
  std::string route;  // tiles or threads; empty: chosen by the kernel
  std::string cpu;    // empty: the one at hand
  int optimize = 3;
};

struct Request {
  std::string text;
  const Target* target = nullptr;
  Options options;
};

struct Dump {
  std::string name, text;
};

/// What a pass has to say of a place in the user's program.
struct Remark {
  std::string message;
  std::vector<Frame> frames;
};

struct Code {
  llvm::SmallVector<char, 0> bytes;
  llvm::json::Object kernels;  // of each kernel what it needs
  std::vector<Remark> remarks;
  std::vector<Dump> dumps;
};

/// Where a compile is, for the one who is left when it dies.
using Progress = std::function<void(const std::string& stage, const std::vector<Frame>& frames)>;

/// Once for each process, before compile.
void initialise_llvm();
/// With all dialects loaded. A compile that was forked from the process starts with it.
std::unique_ptr<mlir::MLIRContext> make_context();
/// The failure, or none and `code` is filled. The context must not be used afterwards.
std::optional<Failure> compile(const Request& request, mlir::MLIRContext& context, const Progress& progress, Code& code);

/// Called where LLVM gives up in the middle of a compile; must not return.
using FatalHandler = std::function<void(Failure)>;
void set_fatal_handler(FatalHandler handler);

}  // namespace jaxator::flight
