/// @file
/// What a kernel needs of the machine, read from the finished code.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

namespace jaxator::flight {

/// A kernel's needs; what the code does not say is null.
struct Needs {
  std::optional<int64_t> registers, accumulators, scalars, shared_bytes, spills, scratch_bytes;
  std::optional<int64_t> bank_conflicts;  // passes beyond what is needed, each access counted once
  int64_t dynamic_shared_bytes = 0;       // that the launch must ask for
  llvm::json::Value to_json() const;
};

/// Of each kernel of a code object, from its metadata.
llvm::Expected<llvm::StringMap<Needs>> read_code_object(llvm::StringRef bytes);

/// Functions that a shared object takes from the process that loads it.
llvm::Expected<std::vector<std::string>> undefined_symbols(llvm::StringRef bytes);

}  // namespace jaxator::flight
