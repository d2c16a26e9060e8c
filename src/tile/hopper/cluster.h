/// @file
/// Shared memory of the other blocks of a cluster.
#pragma once

#include "src/tile/hopper/element.h"

namespace jaxator::hopper {

/// The address, for `load_cluster_vector`, that `shared` has in the block of this rank.
JAXATOR_DEVICE u32 address_in_block(u32 shared, u32 rank) {
  u32 address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared), "r"(rank));
  return address;
}

/// A cluster_sync after the writes and another before the memory is used again are the caller's.
JAXATOR_DEVICE Vector load_cluster_vector(u32 address) {
  Vector v;
  asm volatile("ld.shared::cluster.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "r"(address)
               : "memory");
  return v;
}

}  // namespace jaxator::hopper
