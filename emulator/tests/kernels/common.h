/// @file
/// What the test kernels need of the language: freestanding C++ with clang's AMDGPU builtins, no HIP, no device library.
#pragma once

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i32 = int;
using f16 = _Float16;
using bf16 = __bf16;

using f32x2 = float __attribute__((ext_vector_type(2)));
using f32x4 = float __attribute__((ext_vector_type(4)));
using f32x16 = float __attribute__((ext_vector_type(16)));
using u32x2 = u32 __attribute__((ext_vector_type(2)));
using u32x4 = u32 __attribute__((ext_vector_type(4)));
using i32x4 = i32 __attribute__((ext_vector_type(4)));
using i32x8 = i32 __attribute__((ext_vector_type(8)));
using s16x2 = short __attribute__((ext_vector_type(2)));
using s16x4 = short __attribute__((ext_vector_type(4)));
using bf16x4 = bf16 __attribute__((ext_vector_type(4)));
using bf16x8 = bf16 __attribute__((ext_vector_type(8)));

#define KERNEL(threads) \
  extern "C" __attribute__((amdgpu_kernel, visibility("protected"), amdgpu_flat_work_group_size(threads, threads)))
#define GLOBAL __attribute__((address_space(1)))
#define LOCAL __attribute__((address_space(3)))
#define SHARED __attribute__((loader_uninitialized)) __attribute__((address_space(3)))
#define INLINE static inline __attribute__((always_inline))

INLINE int thread() { return __builtin_amdgcn_workitem_id_x(); }
INLINE int block_x() { return __builtin_amdgcn_workgroup_id_x(); }
INLINE int block_y() { return __builtin_amdgcn_workgroup_id_y(); }
INLINE void barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
template <class T, class U> INLINE T as(U value) { return __builtin_bit_cast(T, value); }
