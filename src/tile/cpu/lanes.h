/// @file
/// Loops over a row of any length in any element type, two vectors at a time: 16-bit elements then fill a whole register (a
/// whole cache line on AVX-512), so a line costs one conversion and one store, and 8 sums are in flight.
#pragma once

#include <type_traits>

#include "jaxator/executor.h"
#include "src/tile/cpu/simd.h"

namespace jaxator::JAXATOR_ISA {

/// Calls launch(T{}) for the storage type.
template <class Launch> void with_type(DType type, Launch&& launch) {
  if (type == DType::f32) return launch(float{});
  if (type == DType::bf16) return launch(Bf16{});
  launch(Fp16{});
}

/// 2 * kLanes floats in the order of memory.
struct Pair {
  f32v lo{}, hi{};

  JAXATOR_INLINE Pair() {}
  JAXATOR_INLINE Pair(f32v low, f32v high) : lo(low), hi(high) {}
  JAXATOR_INLINE Pair(f32v both) : lo(both), hi(both) {}  // NOLINT: implicit, so that a splat multiplies a pair

  friend JAXATOR_INLINE Pair operator+(Pair a, Pair b) { return {a.lo + b.lo, a.hi + b.hi}; }
  friend JAXATOR_INLINE Pair operator-(Pair a, Pair b) { return {a.lo - b.lo, a.hi - b.hi}; }
  friend JAXATOR_INLINE Pair operator*(Pair a, Pair b) { return {a.lo * b.lo, a.hi * b.hi}; }
  JAXATOR_INLINE Pair& operator+=(Pair b) { return *this = *this + b; }
};

inline constexpr int kPair = 2 * kLanes;

/// f of each vector.
template <class F> JAXATOR_INLINE Pair each(F&& f, Pair x) { return {f(x.lo), f(x.hi)}; }
template <class F> JAXATOR_INLINE Pair each(F&& f, Pair x, Pair y) { return {f(x.lo, y.lo), f(x.hi, y.hi)}; }

/// Which elements of a pair exist.
struct Whole {};
struct Part {
  int elements;
};  // the first ones; nothing past them is touched, missing ones read as zero

template <class T> JAXATOR_INLINE Pair load_pair(const T* p, Whole) { return {load_f32(p), load_f32(p + kLanes)}; }
template <class T> JAXATOR_INLINE Pair load_pair(const T* p, Part part) {
  if (part.elements <= kLanes) return {load_f32(p, part.elements), f32v{}};
  return {load_f32(p), load_f32(p + kLanes, part.elements - kLanes)};
}

/// For sums of products of arrays of one type, where only the pairing of elements matters: bfloat16 at even places in lo, at odd
/// places in hi. That is a shift and a mask of one register instead of two shuffles and two shifts.
template <class T, class Which> JAXATOR_INLINE Pair load_unordered(const T* p, Which which) { return load_pair(p, which); }
JAXATOR_INLINE Pair load_unordered(const Bf16* p, Whole) {
  const u32v both = load<u32v>(p);
  return {(f32v)(both << 16), (f32v)(both & 0xffff0000u)};
}

JAXATOR_INLINE u16v narrow(Bf16, Pair x) { return to_bf16(x.lo, x.hi); }
JAXATOR_INLINE u16v narrow(Fp16, Pair x) { return join(to_fp16(x.lo), to_fp16(x.hi)); }

template <class T> JAXATOR_INLINE void store_pair(T* p, Pair x, Whole) { store(p, narrow(T{}, x)); }
JAXATOR_INLINE void store_pair(float* p, Pair x, Whole) { store(p, x.lo), store(p + kLanes, x.hi); }
template <class T> JAXATOR_INLINE void store_pair(T* p, Pair x, Part part) {
  if (part.elements <= kLanes) return store_f32(p, x.lo, part.elements);
  store_f32(p, x.lo);
  store_f32(p + kLanes, x.hi, part.elements - kLanes);
}

/// x with zeros where elements are missing.
JAXATOR_INLINE Pair present(Pair x, Whole) { return x; }
JAXATOR_INLINE Pair present(Pair x, Part part) {
  return {select(iota() < part.elements, x.lo, f32v{}), select(iota() + kLanes < part.elements, x.hi, f32v{})};
}

/// x as it reads after a store to T.
template <class T> JAXATOR_INLINE Pair rounded(Pair x) {
  if constexpr (sizeof(T) == 4) {
    return x;
  } else {
    const u16v bits = narrow(T{}, x);
    return {widen(T{}, low_half(bits)), widen(T{}, high_half(bits))};
  }
}

/// Calls body(index, which) for each pair of [0, n): Whole, and Part for what is left.
template <class Body> JAXATOR_INLINE void for_pairs(int64_t n, Body&& body) {
  int64_t i = 0;
  for (; i + kPair <= n; i += kPair) body(i, Whole{});
  if (i < n) body(i, Part{static_cast<int>(n - i)});
}

/// Copies past the caches, whatever the alignment: only the first and last line, where they are not whole, are not.
JAXATOR_INLINE void stream_bytes(char* to, const char* from, int64_t bytes) {
  int64_t i = (kVectorBytes - static_cast<int64_t>(reinterpret_cast<uintptr_t>(to) % kVectorBytes)) % kVectorBytes;
  if (i > bytes) i = bytes;
  if (i != 0) __builtin_memcpy(to, from, i);
  for (; i + kVectorBytes <= bytes; i += kVectorBytes) stream(to + i, load<u16v>(from + i));
  if (i < bytes) __builtin_memcpy(to + i, from + i, bytes - i);
}

/// Bytes of results that are streamed at a time.
inline constexpr int64_t kBurst = 8192;

/// Calls body(index, which, results) for each pair of [0, n), where results[k] is y[k] + index. Streamed, it is in a buffer in
/// L1 that is then copied past the caches in one burst: non-temporal stores among loads and arithmetic take nearly twice as
/// long (measured on Zen 5: rms_norm of 4096 x 4096 bfloat16 in 1.6 ms against 1.35 ms, memcpy 1.4 ms).
template <int count, class T, class Body> JAXATOR_INLINE void write_pairs(bool stream, int64_t n, T* const (&y)[count],
                                                                          Body&& body) {
  constexpr int64_t kPiece = kBurst / count / static_cast<int64_t>(sizeof(T));
  alignas(64) T buffer[count][kPiece];
  const int64_t step = stream ? kPiece : n;
  for (int64_t first = 0; first < n; first += step) {
    const int64_t piece = n - first < step ? n - first : step;
    T* to[count];
#pragma GCC unroll 8
    for (int k = 0; k < count; k++) to[k] = stream ? buffer[k] : y[k];
    for_pairs(piece, [&](int64_t c, auto which) {
      T* at[count];
#pragma GCC unroll 8
      for (int k = 0; k < count; k++) at[k] = to[k] + c;
      body(first + c, which, at);
    });
    if (!stream) return;
    for (int k = 0; k < count; k++)
      stream_bytes(reinterpret_cast<char*>(y[k] + first), reinterpret_cast<const char*>(buffer[k]),
                   piece * static_cast<int64_t>(sizeof(T)));
  }
}

/// Rows that a kernel takes together where they share float32 parameters: read alone, a row of 4096 would pull 16 KiB of
/// them through L1 for 8 KiB of its own.
inline constexpr int kTogether = kRegisters / 8;

/// Calls body(first row, std::integral_constant<int, rows>) for groups of `together` rows of [row, end), then for single rows.
template <int together, class Body> JAXATOR_INLINE void for_row_groups(int64_t row, int64_t end, Body&& body) {
  for (; row + together <= end; row += together) body(row, std::integral_constant<int, together>{});
  for (; row < end; row++) body(row, std::integral_constant<int, 1>{});
}

/// Several sums over one index: body(index, which, sums) adds to `terms` of them side by side, each in `chains` independent
/// chains: one chain of additions would wait 4 clocks for each vector. Totals are taken in a fixed order.
template <int terms> struct Sums {
  Pair value[terms]{};
  float total(int term) const { return sum(value[term].lo + value[term].hi); }
};

template <int terms, int chains, class Body> JAXATOR_INLINE Sums<terms> sum_pairs(int64_t n, Body&& body) {
  Sums<terms> chain[chains];
  int64_t i = 0;
  for (; i + chains * kPair <= n; i += chains * kPair) {
#pragma GCC unroll 4
    for (int u = 0; u < chains; u++) body(i + u * kPair, Whole{}, chain[u]);
  }
  for (; i + kPair <= n; i += kPair) body(i, Whole{}, chain[0]);
  if (i < n) body(i, Part{static_cast<int>(n - i)}, chain[0]);
#pragma GCC unroll 4
  for (int u = 1; u < chains; u++)
#pragma GCC unroll 16
    for (int t = 0; t < terms; t++) chain[0].value[t] += chain[u].value[t];
  return chain[0];
}

/// out[c] = sum over tasks of partials[task * stride + c], in the order of the tasks whoever runs it.
inline void sum_partials(const float* partials, int64_t tasks, int64_t stride, int64_t columns, float* out, Executor& executor) {
  constexpr int64_t kBlock = 1024;
  const int64_t blocks = (columns + kBlock - 1) / kBlock;
  auto body = [&](int64_t block, int64_t) {
    const int64_t first = block * kBlock, n = columns - first < kBlock ? columns - first : kBlock;
    for_pairs(n, [&](int64_t c, auto which) {
      Pair total = load_pair(partials + first + c, which);
      for (int64_t task = 1; task < tasks; task++) total += load_pair(partials + task * stride + first + c, which);
      store_pair(out + first + c, total, which);
    });
  };
  executor.parallel_for(blocks, blocks, body);
}

/// Prefetches one pair, for kernels that will read it a row later.
template <class T> JAXATOR_INLINE void prefetch_pair(const T* p) {
  for (size_t line = 0; line < sizeof(T) * kPair; line += 64) __builtin_prefetch(reinterpret_cast<const char*>(p) + line);
}

}  // namespace jaxator::JAXATOR_ISA
