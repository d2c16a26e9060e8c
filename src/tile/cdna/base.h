/// @file
/// The words every CDNA kernel is written with: integer names, attributes, thread coordinates, barriers. Plain C++ for amdgcn
/// without any ROCm header or device library.
#pragma once

#include "src/tile/cdna/global.h"

#define JAXATOR_DEVICE __attribute__((always_inline)) inline
/// A kernel that is launched by this name, with the most threads of a block: they bound the registers of a thread (128 for 1024
/// threads, 256 for 512).
#define JAXATOR_KERNEL(threads) extern "C" __attribute__((amdgpu_kernel, amdgpu_flat_work_group_size(1, threads))) void
/// A variable in LDS, of a block; nothing writes it before the kernel does.
#define JAXATOR_SHARED __attribute__((address_space(3), loader_uninitialized)) static

namespace jaxator::cdna {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned;
using u64 = unsigned long long;
using i64 = long long;

inline constexpr u32 kWave = 64;

JAXATOR_DEVICE u32 thread_x() { return __builtin_amdgcn_workitem_id_x(); }
JAXATOR_DEVICE u32 thread_y() { return __builtin_amdgcn_workitem_id_y(); }
JAXATOR_DEVICE u32 thread_z() { return __builtin_amdgcn_workitem_id_z(); }
JAXATOR_DEVICE u32 block_x() { return __builtin_amdgcn_workgroup_id_x(); }
JAXATOR_DEVICE u32 block_y() { return __builtin_amdgcn_workgroup_id_y(); }
JAXATOR_DEVICE u32 threads_x() { return __builtin_amdgcn_workgroup_size_x(); }
JAXATOR_DEVICE u32 threads_y() { return __builtin_amdgcn_workgroup_size_y(); }
JAXATOR_DEVICE u32 threads_z() { return __builtin_amdgcn_workgroup_size_z(); }

/// A value that all lanes of the wave have, told to the compiler: it goes to a scalar register.
JAXATOR_DEVICE u32 uniform(u32 value) { return __builtin_amdgcn_readfirstlane(value); }

JAXATOR_DEVICE u32 lane() { return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0)); }

/// Every thread of the block; what was written to LDS before is seen after. A fence would also wait for loads of global memory
/// that are still under way, which prefetching kernels want to keep.
JAXATOR_DEVICE void block_sync() {
  asm volatile("s_waitcnt lgkmcnt(0)" ::: "memory");
  __builtin_amdgcn_s_barrier();
  asm volatile("" ::: "memory");
}

}  // namespace jaxator::cdna
