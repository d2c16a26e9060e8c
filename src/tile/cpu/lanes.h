/// @file
/// Loops over a row of any length: whole vectors first, then one partial vector.
#pragma once

#include "src/tile/cpu/simd.h"

namespace jaxator::JAXATOR_ISA {

struct Whole {};
struct Part { int lanes; };

template <class T> JAXATOR_INLINE f32v load_f32(const T* p, Whole) { return load_f32(p); }
template <class T> JAXATOR_INLINE f32v load_f32(const T* p, Part part) { return load_f32(p, part.lanes); }
template <class T> JAXATOR_INLINE void store_f32(T* p, f32v x, Whole) { store_f32(p, x); }
template <class T> JAXATOR_INLINE void store_f32(T* p, f32v x, Part part) { store_f32(p, x, part.lanes); }

/// Calls body(index, Whole{}) for each whole vector of [0, n), then body(index, Part{rest}) if lanes are left.
template <class Body> JAXATOR_INLINE void for_lanes(int64_t n, Body&& body) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i, Whole{});
  if (i < n) body(i, Part{static_cast<int>(n - i)});
}

/// The same for sums: body(index, lanes, accumulator) with four accumulators in turn, because one chain of additions would
/// wait 4 clocks for each vector. `terms` is how many sums run side by side. Returns their totals in a fixed order.
template <int terms> struct Sums { f32v value[terms]{}; };

template <int terms, class Body> JAXATOR_INLINE Sums<terms> sum_lanes(int64_t n, Body&& body) {
  Sums<terms> chain[4];
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
#pragma GCC unroll 4
    for (int u = 0; u < 4; u++) body(i + u * kLanes, Whole{}, chain[u]);
  }
  for (; i + kLanes <= n; i += kLanes) body(i, Whole{}, chain[0]);
  if (i < n) body(i, Part{static_cast<int>(n - i)}, chain[1]);
  Sums<terms> total;
#pragma GCC unroll 4
  for (int t = 0; t < terms; t++) total.value[t] = (chain[0].value[t] + chain[1].value[t]) + (chain[2].value[t] + chain[3].value[t]);
  return total;
}

/// Non-temporal stores need p aligned to the bytes of one stored vector.
template <class T> JAXATOR_INLINE bool streamable(const T* p, int64_t row_elements) {
  constexpr uintptr_t bytes = sizeof(T) * kLanes;
  return reinterpret_cast<uintptr_t>(p) % bytes == 0 && row_elements * sizeof(T) % bytes == 0;
}

}  // namespace jaxator::JAXATOR_ISA
