/// @file
/// Files that exist in memory only: what other programs read by a path.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <string>

#include "llvm/ADT/ArrayRef.h"

namespace jaxator::flight {

struct Descriptor {
  int number = -1;
  ~Descriptor() { close(); }
  void close() {
    if (number >= 0) ::close(number);
    number = -1;
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(number); }
};

inline bool write_all(int descriptor, llvm::ArrayRef<char> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes = bytes.drop_front(size_t(written));
  }
  return true;
}

}  // namespace jaxator::flight
