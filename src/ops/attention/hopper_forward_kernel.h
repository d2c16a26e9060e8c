/// @file
/// Attention forward on Hopper (FlashAttention-2 with the overlap of FlashAttention-3, arXiv:2407.08608): one warp loads tiles by
/// the copy engine, each consumer warpgroup owns 64 queries. Blocks stay and take one item (a tile of queries of one batch entry
/// and head) after the other.
#pragma once

#include "src/ops/attention/hopper_forward_consumer.h"
#include "src/ops/attention/hopper_forward_producer.h"

namespace jaxator::hopper::attention {

template <ForwardTile Tile, class T, bool Pairs> JAXATOR_DEVICE void forward(const ForwardParams& params,
                                                                             const ForwardMaps& maps) {
  const ForwardShared<Tile> shared{shared_base()};
  if (thread_x() == 0) shared.init();
  block_sync();
  if (thread_x() < 128) {
    shrink_registers<Tile.producer_registers>();
    if (thread_x() < 32) ForwardProducer<Tile, Pairs>(params, maps, shared).run();
  } else {
    grow_registers<Tile.consumer_registers>();
    ForwardConsumer<Tile, T, Pairs>(params, maps, shared).run();
  }
}

}  // namespace jaxator::hopper::attention

/// Two entries for one element type: for causal, window and lengths alone, and for everything.
#define JAXATOR_FORWARD_ENTRIES(size, suffix, T)                                                                       \
  JAXATOR_KERNEL(forward_tile(size, false).threads(), 1)                                                               \
  attention_forward_##suffix(const JAXATOR_GRID_CONSTANT TensorMap q, const JAXATOR_GRID_CONSTANT TensorMap k,         \
                             const JAXATOR_GRID_CONSTANT TensorMap v, const JAXATOR_GRID_CONSTANT TensorMap out,       \
                             const JAXATOR_GRID_CONSTANT ForwardParams params) {                                       \
    forward<forward_tile(size, false), T, false>(params, {q, k, v, out});                                              \
  }                                                                                                                    \
  JAXATOR_KERNEL(forward_tile(size, true).threads(), 1)                                                                \
  attention_forward_pairs_##suffix(const JAXATOR_GRID_CONSTANT TensorMap q, const JAXATOR_GRID_CONSTANT TensorMap k,   \
                                   const JAXATOR_GRID_CONSTANT TensorMap v, const JAXATOR_GRID_CONSTANT TensorMap out, \
                                   const JAXATOR_GRID_CONSTANT ForwardParams params) {                                 \
    forward<forward_tile(size, true), T, true>(params, {q, k, v, out});                                                \
  }
