/// @file
/// Object files to shared objects and code objects, by lld, without files.
#pragma once

#include <string>

#include "llvm/ADT/SmallVector.h"

namespace jaxator::flight {

/// The object becomes a shared object. False: `error` says why. lld has global state: one link at a time in a process.
bool link_shared(llvm::SmallVectorImpl<char>& bytes, bool undefined_allowed, std::string& error);

}  // namespace jaxator::flight
