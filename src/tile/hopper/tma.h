/// @file
/// The bulk tensor copy engine: boxes of a tensor between global and shared memory. Coordinates go from the innermost dimension
/// outwards, in elements; parts of a box outside the tensor are read as zeros and not written.
#pragma once

#include "src/tile/hopper/base.h"

namespace jaxator::hopper {

/// A kernel takes it as `const JAXATOR_GRID_CONSTANT TensorMap`: the engine reads it from constant memory.
struct alignas(64) TensorMap {
  u64 words[16];
};

JAXATOR_DEVICE void tma_prefetch(const TensorMap& map) { asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory"); }

JAXATOR_DEVICE void tma_load(u32 to, const TensorMap& map, u32 barrier, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(x), "r"(y)
      : "memory");
}
JAXATOR_DEVICE void tma_load(u32 to, const TensorMap& map, u32 barrier, int x, int y, int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z)
      : "memory");
}
JAXATOR_DEVICE void tma_load(u32 to, const TensorMap& map, u32 barrier, int x, int y, int z, int w) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w)
      : "memory");
}

/// To the same place in every block of the cluster whose bit is set; each block's own barrier counts the bytes.
JAXATOR_DEVICE void tma_load_multicast(u32 to, const TensorMap& map, u32 barrier, int x, int y, u16 blocks) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4}], "
      "[%2], "
      "%5;" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(x), "r"(y), "h"(blocks)
      : "memory");
}
JAXATOR_DEVICE void tma_load_multicast(u32 to, const TensorMap& map, u32 barrier, int x, int y, int z, u16 blocks) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4, %5}], "
      "[%2], %6;" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z), "h"(blocks)
      : "memory");
}

JAXATOR_DEVICE void tma_store(const TensorMap& map, u32 from, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(&map), "r"(from), "r"(x),
               "r"(y)
               : "memory");
}
JAXATOR_DEVICE void tma_store(const TensorMap& map, u32 from, int x, int y, int z) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(&map), "r"(from), "r"(x),
               "r"(y), "r"(z)
               : "memory");
}
JAXATOR_DEVICE void tma_store(const TensorMap& map, u32 from, int x, int y, int z, int w) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(&map), "r"(from),
               "r"(x), "r"(y), "r"(z), "r"(w)
               : "memory");
}

/// Ends a group of stores of this thread; the waits count groups that may still be under way.
JAXATOR_DEVICE void tma_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
/// Shared memory may be written again.
template <int Groups> JAXATOR_DEVICE void tma_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Groups) : "memory");
}
/// Global memory is written.
template <int Groups> JAXATOR_DEVICE void tma_wait() { asm volatile("cp.async.bulk.wait_group %0;" ::"n"(Groups) : "memory"); }

}  // namespace jaxator::hopper
