/// @file
/// Arrays aligned as XLA aligns its buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

namespace jaxator {

template <class T> struct CacheLines {
  using value_type = T;
  CacheLines() = default;
  template <class U> CacheLines(const CacheLines<U>&) {}  // NOLINT: allocators convert
  T* allocate(size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), std::align_val_t{64})); }
  void deallocate(T* p, size_t) { ::operator delete(p, std::align_val_t{64}); }
  friend bool operator==(CacheLines, CacheLines) { return true; }
};

template <class T> using Aligned = std::vector<T, CacheLines<T>>;

}  // namespace jaxator
