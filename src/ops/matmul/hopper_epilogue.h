/// @file
/// From accumulators to the result: bias, activation, residual in float32, one rounding, and the stores. 64 rows and 64 columns
/// at a time go through boxes of shared memory, of which each warp writes and reads the same 16 rows.
#pragma once

#include "src/ops/matmul/hopper_activation.h"
#include "src/ops/matmul/hopper_tile.h"
#include "src/tile/hopper/bulk.h"
#include "src/tile/hopper/memory.h"
#include "src/tile/hopper/tma.h"

namespace jaxator::hopper {

/// The type of elements in memory.
template <class T> struct Stored {
  using type = T;
};
template <> struct Stored<Tf32> {
  using type = float;
};

/// What the epilogue has to do, in a register.
struct Wanted {
  u32 bits;
  JAXATOR_DEVICE explicit Wanted(const MatmulParams& p) {
    bits = static_cast<u32>(p.activation) | (p.residual != nullptr) << 8 | (p.bias != nullptr) << 9 |
           (p.preactivation != nullptr) << 10 | (p.out_f32 != 0) << 11 | (p.store_maps != 0) << 12 | (p.aligned_rows != 0) << 13;
  }
  JAXATOR_DEVICE int activation() const { return static_cast<int>(bits & 255); }
  JAXATOR_DEVICE bool residual() const { return bits >> 8 & 1; }
  JAXATOR_DEVICE bool bias() const { return bits >> 9 & 1; }
  JAXATOR_DEVICE bool preactivation() const { return bits >> 10 & 1; }
  JAXATOR_DEVICE bool out_f32() const { return bits >> 11 & 1; }
  JAXATOR_DEVICE bool store_maps() const { return bits >> 12 & 1; }
  JAXATOR_DEVICE bool aligned_rows() const { return bits >> 13 & 1; }
  /// Nothing but a bias and rounding, and stores through the copy engine.
  JAXATOR_DEVICE bool only_bias() const { return (bits & 0x1dff) == 0x1000; }
};

struct ResultMaps {
  const TensorMap &out, &preactivation;
};

/// Up to 64 columns of a warpgroup's 64 rows.
struct ChunkPlace {
  int row, column, batch;
  int columns;  // that are this block's to finish; a box has 64
};

// ---- boxes ----------------------------------------------------------------------------------------------------------

/// Two boxes of 64 rows of 128 bytes, swizzled, that a warpgroup fills in turn while the copy engine empties the other.
struct Staging {
  u32 boxes, barrier, thread, turn = 0;

  JAXATOR_DEVICE Staging(u32 base, u32 group, u32 thread_)
      : boxes(base + group * (2 * kBoxBytes)), barrier(kFirstGroupBarrier + group), thread(thread_) {}
  /// The box that may be written now.
  JAXATOR_DEVICE u32 begin() const {
    if (thread == 0) tma_wait_read<1>();
    named_sync<kGroupThreads>(barrier);
    return boxes + (turn & 1) * kBoxBytes;
  }
  JAXATOR_DEVICE void send(const TensorMap& map, u32 box, int column, int row, int batch) {
    turn++;
    fence_shared_for_async();
    named_sync<kGroupThreads>(barrier);
    if (thread != 0) return;
    tma_store(map, box, column, row, batch);
    tma_commit();
  }

  // This thread's rows, of the 16 of its warp: in accumulators (and eight below), in stmatrix, in copies of 16 bytes.
  JAXATOR_DEVICE u32 first_row() const { return thread / 32 * 16; }
  JAXATOR_DEVICE u32 fragment_row() const { return first_row() + thread % 32 / 4; }
  JAXATOR_DEVICE u32 copy_row(int i) const { return first_row() + static_cast<u32>(4 * i) + thread % 32 / 8; }
  JAXATOR_DEVICE u32 copy_chunk() const { return thread % 8; }
  JAXATOR_DEVICE static u32 address(u32 box, u32 row, u32 chunk) { return box + row * kSwizzleBytes + (chunk ^ (row & 7)) * 16; }
  /// Of column group j (eight columns, 0 to 7) and the next: lanes 0-7 name rows 0-7, 8-15 rows 8-15, 16-31 the next group.
  JAXATOR_DEVICE u32 matrix_address(u32 box, int j) const {
    return address(box, first_row() + thread % 16, static_cast<u32>(j) + thread % 32 / 16);
  }
  /// Of two float32 of an accumulator: column group j (0 to 3), row h * 8 below.
  JAXATOR_DEVICE u32 pair_address(u32 box, int j, int h) const {
    return address(box, fragment_row() + static_cast<u32>(8 * h), static_cast<u32>(2 * j) + thread % 4 / 2) + thread % 2 * 8;
  }
};

JAXATOR_DEVICE void put_pair(u32 address, float x, float y) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(x), "f"(y) : "memory");
}
JAXATOR_DEVICE void add_pair(u32 address, float& x, float& y) {
  float a, b;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(a), "=f"(b) : "r"(address) : "memory");
  x += a, y += b;
}

/// An array of the result's shape, as elements of M, seen from one chunk.
template <class M> struct ResultArray {
  static constexpr int kBoxColumns = static_cast<int>(kSwizzleBytes / sizeof(M));
  void* base;
  const MatmulParams& p;
  const ChunkPlace& at;
  bool aligned;

  JAXATOR_DEVICE M* element(u32 row, int column) const {
    return static_cast<M*>(base) + (static_cast<i64>(at.batch) * p.m + at.row + row) * p.n + at.column + column;
  }
  JAXATOR_DEVICE bool has(u32 row, int column) const {
    return at.row + static_cast<int>(row) < p.m && at.column + column < p.n && column < at.columns;
  }

  /// 16 rows of a warp, 128 bytes of columns from `first` on, into registers if rows are aligned.
  JAXATOR_DEVICE void fetch(const Staging& staging, int first, Vector (&v)[4]) const {
    if (!aligned) return;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const u32 row = staging.copy_row(i);
      const int column = first + static_cast<int>(staging.copy_chunk()) * kVectorElements<M>;
      v[i] = {};
      if (has(row, column)) v[i] = load_once(element(row, column));
    }
  }
  /// The same into a box.
  JAXATOR_DEVICE void fill(const Staging& staging, u32 box, int first, const Vector (&v)[4]) const {
    if (aligned) {
#pragma unroll
      for (int i = 0; i < 4; i++) store_shared(Staging::address(box, staging.copy_row(i), staging.copy_chunk()), v[i]);
      return;
    }
    each(staging, box, first, [&](u32 address, u32 row, int column) {
      if constexpr (sizeof(M) == 4) {
        store_shared(address, has(row, column) ? *element(row, column) : 0.0f);
      } else {
        const u16 bits = has(row, column) ? element(row, column)->bits : u16{0};
        asm volatile("st.shared.u16 [%0], %1;" ::"r"(address), "h"(bits) : "memory");
      }
    });
  }
  /// From a box to memory, without the copy engine.
  JAXATOR_DEVICE void empty(const Staging& staging, u32 box, int first) const {
    if (aligned) {
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const u32 row = staging.copy_row(i);
        const int column = first + static_cast<int>(staging.copy_chunk()) * kVectorElements<M>;
        if (has(row, column)) store(element(row, column), load_shared_vector(Staging::address(box, row, staging.copy_chunk())));
      }
      return;
    }
    each(staging, box, first, [&](u32 address, u32 row, int column) {
      if (!has(row, column)) return;
      if constexpr (sizeof(M) == 4)
        *element(row, column) = load_shared(address);
      else
        asm volatile("ld.shared.u16 %0, [%1];" : "=h"(element(row, column)->bits) : "r"(address) : "memory");
    });
  }

 private:
  /// One element at a time: a warp's lanes on neighbours.
  template <class Body> JAXATOR_DEVICE void each(const Staging& staging, u32 box, int first, Body&& body) const {
    constexpr int kItems = 16 * kBoxColumns;
#pragma unroll 1
    for (int i = static_cast<int>(staging.thread % 32); i < kItems; i += 32) {
      const u32 row = staging.first_row() + static_cast<u32>(i / kBoxColumns),
                byte = static_cast<u32>(i % kBoxColumns) * sizeof(M);
      body(Staging::address(box, row, byte / 16) + byte % 16, row, first + i % kBoxColumns);
    }
  }
};

// ---- one chunk ------------------------------------------------------------------------------------------------------

/// x of a chunk, as accumulators, to an array.
template <class M>
JAXATOR_DEVICE void store_chunk(const float (&x)[32], const ResultArray<M>& to, const TensorMap& map, bool by_map,
                                Staging& staging) {
#pragma unroll
  for (int part = 0; part < 64 / ResultArray<M>::kBoxColumns; part++) {
    const int first = part * ResultArray<M>::kBoxColumns;
    const u32 box = staging.begin();
    if constexpr (sizeof(M) == 2) {
#pragma unroll
      for (int j = 0; j < 8; j += 2) {
        const float* v = x + 4 * j;
        stmatrix(staging.matrix_address(box, j), pack2<M>(v[0], v[1]), pack2<M>(v[2], v[3]), pack2<M>(v[4], v[5]),
                 pack2<M>(v[6], v[7]));
      }
    } else {
#pragma unroll
      for (int i = 0; i < 8; i++)
        put_pair(staging.pair_address(box, i / 2, i % 2), x[16 * part + 2 * i], x[16 * part + 2 * i + 1]);
    }
    if (by_map) {
      staging.send(map, box, to.at.column + first, to.at.row, to.at.batch);
    } else {
      warp_sync();
      to.empty(staging, box, first);
    }
  }
}

/// x += residual. `fetched` is its box where rows are aligned and elements have 16 bits.
template <class M>
JAXATOR_DEVICE void add_residual(float (&x)[32], const ResultArray<M>& from, Vector (&fetched)[4], const Staging& staging) {
#pragma unroll
  for (int part = 0; part < 64 / ResultArray<M>::kBoxColumns; part++) {
    const int first = part * ResultArray<M>::kBoxColumns;
    if constexpr (sizeof(M) == 4) from.fetch(staging, first, fetched);
    const u32 box = staging.begin();
    from.fill(staging, box, first, fetched);
    warp_sync();
    if constexpr (sizeof(M) == 2) {
#pragma unroll
      for (int j = 0; j < 8; j += 2) {
        u32 bits[4];
        ldmatrix(staging.matrix_address(box, j), bits[0], bits[1], bits[2], bits[3]);
#pragma unroll
        for (int i = 0; i < 4; i++) {
          x[4 * j + 2 * i] += to_float(M{static_cast<u16>(bits[i])});
          x[4 * j + 2 * i + 1] += to_float(M{static_cast<u16>(bits[i] >> 16)});
        }
      }
    } else {
#pragma unroll
      for (int i = 0; i < 8; i++)
        add_pair(staging.pair_address(box, i / 2, i % 2), x[16 * part + 2 * i], x[16 * part + 2 * i + 1]);
    }
    warp_sync();
  }
}

/// x += bias, from this column on.
JAXATOR_DEVICE void add_bias(float (&x)[32], const MatmulParams& p, int batch, int first, u32 thread) {
  const float* bias = p.bias + static_cast<i64>(batch) * p.bias_batched * p.n;
#pragma unroll
  for (int i = 0; i < 16; i++) {
    const int column = first + static_cast<int>(thread % 4 * 2) + i / 2 * 8 + i % 2;
    const float b = bias[column < p.n ? column : p.n - 1];
    x[i / 2 * 4 + i % 2] += b, x[i / 2 * 4 + 2 + i % 2] += b;
  }
}

/// Asks for the residual of a warpgroup's part of a tile, so that it is in the second-level cache when the product is done.
template <class T> JAXATOR_DEVICE void prefetch_residual(const MatmulParams& p, const ChunkPlace& at, u32 thread) {
  using M = typename Stored<T>::type;
  const int row = at.row + static_cast<int>(thread), left = p.n - at.column, columns = left < at.columns ? left : at.columns;
  if (p.residual == nullptr || !p.aligned_rows || thread >= 64 || row >= p.m || columns <= 0) return;
  const M* from = static_cast<const M*>(p.residual) + (static_cast<i64>(at.batch) * p.m + row) * p.n + at.column;
  bulk_prefetch(from, static_cast<u32>(columns) * static_cast<u32>(sizeof(M)));
}

/// A chunk's residual, to be asked for while the one before it is finished. Not for 32-bit elements, whose second box would keep
/// as many registers again.
template <class T>
JAXATOR_DEVICE void fetch_residual(const MatmulParams& p, const ChunkPlace& at, const Staging& staging, Vector (&fetched)[4]) {
  using M = typename Stored<T>::type;
  if constexpr (sizeof(M) == 2)
    if (p.residual != nullptr)
      ResultArray<M>{const_cast<void*>(p.residual), p, at, p.aligned_rows != 0}.fetch(staging, 0, fetched);
}

/// fetched: as fetch_residual left it; `added()` is called when it has been used.
template <class T, class Added>
JAXATOR_DEVICE void finish_chunk(float (&x)[32], const MatmulParams& p, const ChunkPlace& at, const ResultMaps& maps,
                                 Staging& staging, Vector (&fetched)[4], Added&& added) {
  using M = typename Stored<T>::type;
  const Wanted want(p);
  const bool by_map = want.store_maps() && at.columns >= 64;
  const ResultArray<M> residual{const_cast<void*>(p.residual), p, at, want.aligned_rows()};
  if (want.bias()) add_bias(x, p, at.batch, at.column, staging.thread);
  if (want.preactivation()) store_chunk<M>(x, {p.preactivation, p, at, want.aligned_rows()}, maps.preactivation, by_map, staging);
  activate(x, want.activation());
  if (want.residual()) add_residual<M>(x, residual, fetched, staging);
  added();
  if (want.out_f32())
    store_chunk<float>(x, {p.out, p, at, want.aligned_rows()}, maps.out, by_map, staging);
  else
    store_chunk<M>(x, {p.out, p, at, want.aligned_rows()}, maps.out, by_map, staging);
}

}  // namespace jaxator::hopper
