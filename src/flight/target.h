/// @file
/// The machines that kernels are compiled for.
#pragma once

#include <cstdint>

#include "llvm/ADT/StringRef.h"

namespace jaxator::flight {

enum class Family : uint8_t { x86, cdna, nvidia };

struct Target {
  const char* name;
  Family family;
  int wave;              // lanes
  int64_t shared_bytes;  // the most of a block
  const char* triple;
  const char* features;

  bool x86() const { return family == Family::x86; }
  bool cdna() const { return family == Family::cdna; }
  bool nvidia() const { return family == Family::nvidia; }
};

/// nullptr: not one of them.
const Target* find_target(llvm::StringRef name);
/// As a list for errors.
const char* target_names();

}  // namespace jaxator::flight
