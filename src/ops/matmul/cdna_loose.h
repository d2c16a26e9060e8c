/// @file
/// The sum over k of operands without any alignment: elements come one by one, with 64-bit addresses, to rows of 32 of k in LDS.
/// Right for every shape and layout, and far from fast.
#pragma once

#include "src/ops/matmul/cdna_small_floats.h"
#include "src/ops/matmul/cdna_tile.h"

namespace jaxator::cdna {
inline constexpr u32 kLooseDepth = 32, kLooseRowBytes = kLooseDepth * 2, kLooseOperand = kMatmulTile * kLooseRowBytes;
inline constexpr u32 kLooseChunks = 2;  // of eight elements a thread
using LooseRows = SwizzledRows<kLooseRowBytes>;
static_assert(LooseRows::conflicts() == 0);

inline constexpr u32 kLooseBytes = 2 * kLooseOperand;  // of LDS

/// An operand's tiles, multiplied as T.
template <class Stored, class T> class LooseOperand {
 public:
  JAXATOR_DEVICE LooseOperand(const MatmulOperand& operand, const LooseStrides& strides, u32 batch, u32 first, u32 extent, u32 k)
      : matrix_(static_cast<const u8 JAXATOR_GLOBAL*>(operand.data) + i64{batch} * operand.batch_bytes),
        term_bytes_(operand.sum_bytes),
        k_stride_(strides.k),
        k_(k) {
#pragma unroll
    for (u32 i = 0; i < kLooseChunks; i++) {
      // Rows past the end take the last one's elements: they only reach results that do not exist.
      const u32 wanted = first + row(i), there = wanted < extent ? wanted : extent - 1;
      row_offset_[i] = i64{there} * strides.row;
    }
  }

  JAXATOR_DEVICE void load(u32 term, u32 first_k) {
    const Stored JAXATOR_GLOBAL* elements = reinterpret_cast<const Stored JAXATOR_GLOBAL*>(matrix_ + i64{term} * term_bytes_);
#pragma unroll
    for (u32 i = 0; i < kLooseChunks; i++) {
      Lanes<u16, 8> bits;
#pragma unroll
      for (u32 e = 0; e < 8; e++) {
        const u32 at = first_k + chunk() * 8 + e;
        const Stored element = elements[row_offset_[i] + i64{at < k_ ? at : k_ - 1} * k_stride_];
        bits[e] = at < k_ ? multiplied<T>(element).bits : 0;
      }
      vector_[i] = bits_as<Vector>(bits);
    }
  }
  JAXATOR_DEVICE void put(Lds lds) const {
#pragma unroll
    for (u32 i = 0; i < kLooseChunks; i++) lds_store(lds, LooseRows::offset(row(i), chunk()), vector_[i]);
  }

 private:
  static JAXATOR_DEVICE u32 row(u32 i) { return thread_x() / 4 + i * 128; }
  static JAXATOR_DEVICE u32 chunk() { return thread_x() % 4; }

  const u8 JAXATOR_GLOBAL* matrix_;
  i64 term_bytes_, k_stride_, row_offset_[kLooseChunks];
  u32 k_;
  Vector vector_[kLooseChunks];
};

template <int blocks> JAXATOR_DEVICE void read_loose(Lds lds, u32 first, u32 lane, Vector (&fragments)[blocks]) {
#pragma unroll
  for (u32 i = 0; i < blocks; i++) fragments[i] = lds_load<Vector>(lds, LooseRows::offset(first + 16 * i + lane % 16, lane / 16));
}

/// sums = a b. T: the type that is multiplied. Uses LDS from `lds` on, and is done with it at the end.
template <class StoredA, class StoredB, class T>
JAXATOR_DEVICE void multiply_loose(Lds lds, const Place& place, const TileIndex& tile, const MatmulParams& p,
                                   const LooseStrides& strides_a, const LooseStrides& strides_b, Results& sums) {
  const Lds lds_b = lds + kLooseOperand;
  LooseOperand<StoredA, T> a(p.a, strides_a, tile.batch, tile.row * kMatmulTile, p.m, p.k);
  LooseOperand<StoredB, T> b(p.b, strides_b, tile.batch, tile.column * kMatmulTile, p.n, p.k);
#pragma unroll
  for (auto& row : sums)
#pragma unroll
    for (Accumulator<16>& sum : row) sum = {};
#pragma unroll 1
  for (u32 term = 0; term < p.terms; term++)
#pragma unroll 1
    for (u32 k = 0; k < p.k; k += kLooseDepth) {
      a.load(term, k), b.load(term, k);
      barrier();
      a.put(lds), b.put(lds_b);
      wait<63, 0>();
      barrier();
      Vector fragments_a[kBlockRows], fragments_b[kBlockColumns];
      read_loose(lds, place.row, place.lane, fragments_a);
      read_loose(lds_b, place.column, place.lane, fragments_b);
#pragma unroll
      for (int i = 0; i < kBlockRows; i++)
#pragma unroll
        for (int j = 0; j < kBlockColumns; j++) sums[i][j] = multiply_add<16, T>(fragments_b[j], fragments_a[i], sums[i][j]);
      wait<63, 0>();
    }
  barrier();
}

}  // namespace jaxator::cdna
