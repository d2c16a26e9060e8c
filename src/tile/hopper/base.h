/// @file
/// The words every Hopper kernel is written with: integer names, attributes, thread coordinates, barriers. clang++'s CUDA
/// language mode without any CUDA header, so attributes and special registers are spelled out once, here.
#pragma once

#define JAXATOR_DEVICE __attribute__((device, always_inline)) inline
/// A kernel that is launched by this name, with the most threads of a block and the least blocks on a multiprocessor: both bound
/// the registers of a thread.
#define JAXATOR_KERNEL(threads, blocks) extern "C" __attribute__((global, launch_bounds(threads, blocks))) void
#define JAXATOR_GRID_CONSTANT __attribute__((grid_constant))

namespace jaxator::hopper {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned;
using u64 = unsigned long long;
using i64 = long long;

#define JAXATOR_SPECIAL_REGISTER(function, name)  \
  JAXATOR_DEVICE u32 function() {                 \
    u32 value;                                    \
    asm("mov.u32 %0, %%" name ";" : "=r"(value)); \
    return value;                                 \
  }
JAXATOR_SPECIAL_REGISTER(thread_x, "tid.x")
JAXATOR_SPECIAL_REGISTER(thread_y, "tid.y")
JAXATOR_SPECIAL_REGISTER(thread_z, "tid.z")
JAXATOR_SPECIAL_REGISTER(block_x, "ctaid.x")
JAXATOR_SPECIAL_REGISTER(block_y, "ctaid.y")
JAXATOR_SPECIAL_REGISTER(block_z, "ctaid.z")
JAXATOR_SPECIAL_REGISTER(threads_x, "ntid.x")
JAXATOR_SPECIAL_REGISTER(threads_y, "ntid.y")
JAXATOR_SPECIAL_REGISTER(threads_z, "ntid.z")
JAXATOR_SPECIAL_REGISTER(blocks_x, "nctaid.x")
JAXATOR_SPECIAL_REGISTER(blocks_y, "nctaid.y")
JAXATOR_SPECIAL_REGISTER(cluster_x, "clusterid.x")
JAXATOR_SPECIAL_REGISTER(clusters_x, "nclusterid.x")
JAXATOR_SPECIAL_REGISTER(rank_in_cluster, "cluster_ctarank")
#undef JAXATOR_SPECIAL_REGISTER

/// Every thread of the block.
JAXATOR_DEVICE void block_sync() { asm volatile("bar.sync 0;" ::: "memory"); }

/// `Threads` threads that name the same barrier (1 to 15).
template <int Threads> JAXATOR_DEVICE void named_sync(u32 barrier) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(Threads) : "memory");
}
template <int Threads> JAXATOR_DEVICE void named_arrive(u32 barrier) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "n"(Threads) : "memory");
}

JAXATOR_DEVICE void warp_sync() { asm volatile("bar.warp.sync -1;" ::: "memory"); }

/// Start of dynamic shared memory as a 32-bit shared address, aligned to 1024 bytes (a whole pattern of the 128-byte swizzle).
extern __attribute__((shared, aligned(1024))) u8 dynamic_shared[];
JAXATOR_DEVICE u32 shared_base() {
  return static_cast<u32>(reinterpret_cast<u64>((__attribute__((address_space(3))) u8*)dynamic_shared));
}

/// Moves registers between the warpgroups of a block. Needs launch bounds with a minimum of blocks, in every warp of a group.
template <int Registers> JAXATOR_DEVICE void shrink_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}
template <int Registers> JAXATOR_DEVICE void grow_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}

}  // namespace jaxator::hopper
