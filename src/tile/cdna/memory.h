/// @file
/// Rows of global memory as buffer descriptors: lanes past the end read zeros and write nothing, so that neither needs a branch.
/// After a branch the compiler no longer knows how many accesses are under way, and waits for more than it has to.
#pragma once

#include "src/tile/cdna/element.h"

namespace jaxator::cdna {

/// Bytes from an address that all lanes of the wave share. Offsets are 32 bits wide.
class Span {
 public:
  template <class T> JAXATOR_DEVICE Span(const T JAXATOR_GLOBAL* begin, u32 bytes) {
    // The low half of the descriptor's last word is unused by raw accesses; this data format is 32 bits, as they require.
    constexpr int kRawFormat = 0x00027000;
    resource_ =
        __builtin_amdgcn_make_buffer_rsrc(const_cast<void JAXATOR_GLOBAL*>(static_cast<const void JAXATOR_GLOBAL*>(begin)),
                                          /*stride=*/0, bytes, kRawFormat);
  }

  /// Read once: the first to leave the caches.
  JAXATOR_DEVICE Vector load_once(u32 offset) const {
    return __builtin_amdgcn_raw_buffer_load_b128(resource_, offset, 0, kNonTemporal);
  }
  /// Read again by other blocks.
  JAXATOR_DEVICE Vector load(u32 offset) const { return __builtin_amdgcn_raw_buffer_load_b128(resource_, offset, 0, 0); }
  JAXATOR_DEVICE void store(u32 offset, Vector v) const { __builtin_amdgcn_raw_buffer_store_b128(v, resource_, offset, 0, 0); }
  /// Not read soon.
  JAXATOR_DEVICE void store_streamed(u32 offset, Vector v) const {
    __builtin_amdgcn_raw_buffer_store_b128(v, resource_, offset, 0, kNonTemporal);
  }
  /// One element, of 2 or 4 bytes.
  template <class T> JAXATOR_DEVICE T load_element(u32 offset) const {
    if constexpr (sizeof(T) == 4)
      return bits_as<T>(__builtin_amdgcn_raw_buffer_load_b32(resource_, offset, 0, 0));
    else
      return bits_as<T>(__builtin_amdgcn_raw_buffer_load_b16(resource_, offset, 0, 0));
  }
  template <class T> JAXATOR_DEVICE void store_element(u32 offset, T v) const {
    if constexpr (sizeof(T) == 4)
      __builtin_amdgcn_raw_buffer_store_b32(bits_as<u32>(v), resource_, offset, 0, 0);
    else
      __builtin_amdgcn_raw_buffer_store_b16(bits_as<u16>(v), resource_, offset, 0, 0);
  }

  /// Ends at this offset, so that a lane there reads zeros and writes nothing; for lanes without an element.
  static constexpr u32 kNowhere = u32{1} << 31;

 private:
  static constexpr int kNonTemporal = 2;
  __amdgpu_buffer_rsrc_t resource_;
};

/// Elements from column `column` on as floats: zeros past the end.
template <int N> JAXATOR_DEVICE void load_floats(const Span& parameters, u32 column, float (&out)[N]) {
#pragma unroll
  for (int e = 0; e < N; e += 4) {
    const Vector v = parameters.load((column + e) * 4);
#pragma unroll
    for (int j = 0; j < 4; j++) out[e + j] = bits_as<float>(v[j]);
  }
}

template <int N> JAXATOR_DEVICE void store_floats(const Span& floats, u32 column, const float (&values)[N]) {
#pragma unroll
  for (int e = 0; e < N; e += 4) {
    Vector v;
#pragma unroll
    for (int j = 0; j < 4; j++) v[j] = bits_as<u32>(values[e + j]);
    floats.store((column + e) * 4, v);
  }
}

}  // namespace jaxator::cdna
