/// @file
/// Zeroed memory that takes room only where it was touched, with a page before and behind that cannot be touched.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <utility>

#include "emulator/src/common.h"

namespace jaxator::emulator {

class SparseMemory {
 public:
  SparseMemory() = default;
  explicit SparseMemory(u64 bytes) {
    const u64 page = static_cast<u64>(sysconf(_SC_PAGESIZE));
    if (bytes > (u64{1} << 46)) fail(bytes, " bytes of memory: at most 2^46");
    const u64 body = (bytes + page - 1) / page * page;
    mapped_ = body + 2 * page;
    void* at = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) fail("no room for ", bytes, " bytes of memory");
    begin_ = static_cast<u8*>(at);
    data_ = begin_ + page;
    if (body != 0 && mprotect(data_, body, PROT_READ | PROT_WRITE) != 0) {
      munmap(begin_, mapped_);
      fail("no room for ", bytes, " bytes of memory");
    }
  }
  SparseMemory(SparseMemory&& other) noexcept { *this = std::move(other); }
  SparseMemory& operator=(SparseMemory&& other) noexcept {
    std::swap(begin_, other.begin_);
    std::swap(data_, other.data_);
    std::swap(mapped_, other.mapped_);
    return *this;
  }
  ~SparseMemory() {
    if (begin_ != nullptr) munmap(begin_, mapped_);
  }

  u8* data() const { return data_; }

 private:
  u8* begin_ = nullptr;
  u8* data_ = nullptr;
  u64 mapped_ = 0;
};

}  // namespace jaxator::emulator
