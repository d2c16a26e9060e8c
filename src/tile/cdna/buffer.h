/// @file
/// Global memory through buffer descriptors whose base has 64 bits and moves with the block: offsets from it have 32. Lanes past
/// the end read zeros and write nothing, so that edges need no branch.
#pragma once

#include "src/tile/cdna/element.h"
#include "src/tile/cdna/lds.h"

namespace jaxator::cdna {

/// An offset that is past the end of every descriptor that is shorter than 2 GiB, whatever is added to it below 2 GiB.
inline constexpr u32 kNowhere = 0x80000000u;

class Buffer {
 public:
  /// Of nothing, until one is assigned.
  Buffer() = default;
  /// Base and length are those of all lanes. A length beyond what 32 bits hold is cut to it.
  JAXATOR_DEVICE Buffer(const void JAXATOR_GLOBAL* base, u64 bytes) {
    constexpr int kRawFormat = 0x00027000;  // 32-bit data format: raw accesses
    const u32 length = bytes > 0xffffffffull ? 0xffffffffu : static_cast<u32>(bytes);
    resource_ = __builtin_amdgcn_make_buffer_rsrc(const_cast<void JAXATOR_GLOBAL*>(base), /*stride=*/0, length, kRawFormat);
  }

  /// `offset` is each lane's, `shared` that of all lanes. T has 2, 4, 8 or 16 bytes.
  template <class T> JAXATOR_DEVICE T load(u32 offset, u32 shared = 0) const {
    if constexpr (sizeof(T) == 1) return bits_as<T>(__builtin_amdgcn_raw_buffer_load_b8(resource_, offset, shared, 0));
    if constexpr (sizeof(T) == 2) return bits_as<T>(__builtin_amdgcn_raw_buffer_load_b16(resource_, offset, shared, 0));
    if constexpr (sizeof(T) == 4) return bits_as<T>(__builtin_amdgcn_raw_buffer_load_b32(resource_, offset, shared, 0));
    if constexpr (sizeof(T) == 8) return bits_as<T>(__builtin_amdgcn_raw_buffer_load_b64(resource_, offset, shared, 0));
    if constexpr (sizeof(T) == 16) return bits_as<T>(__builtin_amdgcn_raw_buffer_load_b128(resource_, offset, shared, 0));
  }

  template <class T> JAXATOR_DEVICE void store(u32 offset, T value, u32 shared = 0) const {
    if constexpr (sizeof(T) == 1) __builtin_amdgcn_raw_buffer_store_b8(bits_as<u8>(value), resource_, offset, shared, 0);
    if constexpr (sizeof(T) == 2) __builtin_amdgcn_raw_buffer_store_b16(bits_as<u16>(value), resource_, offset, shared, 0);
    if constexpr (sizeof(T) == 4) __builtin_amdgcn_raw_buffer_store_b32(bits_as<u32>(value), resource_, offset, shared, 0);
    if constexpr (sizeof(T) == 8) __builtin_amdgcn_raw_buffer_store_b64(bits_as<Lanes2>(value), resource_, offset, shared, 0);
    if constexpr (sizeof(T) == 16) __builtin_amdgcn_raw_buffer_store_b128(bits_as<Vector>(value), resource_, offset, shared, 0);
  }

#if defined(__gfx950__)
  /// 16 bytes a lane, lane after lane, to the 1024 bytes of LDS from `to` on, which is the same for all lanes. Not waited for.
  JAXATOR_DEVICE void load_to_lds(Lds to, u32 offset, u32 shared = 0) const {
    __builtin_amdgcn_raw_ptr_buffer_load_lds(resource_, to, 16, offset, shared, 0, 0);
  }
#endif

 private:
  __amdgpu_buffer_rsrc_t resource_;
};

}  // namespace jaxator::cdna
