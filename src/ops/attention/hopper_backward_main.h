/// @file
/// The main kernel of attention's backward pass: roles of its warps. 384 threads: warpgroup 0 feeds, 1 and 2 compute.
#pragma once

#include "src/ops/attention/hopper_backward_consumer.h"
#include "src/ops/attention/hopper_backward_feed.h"

namespace jaxator::hopper::attention {

struct BackwardMaps {
  const TensorMap &q, &k, &v, &dout, &dk, &dv;
};

template <int kHead, bool kPairs>
JAXATOR_DEVICE void feed(const BackwardParams& p, const BackwardMaps& maps, BackwardLayout<kHead, kPairs> shared) {
  const u32 thread = thread_x();
  if (thread == 0) BackwardLoader<kHead, kPairs>{p, maps.q, maps.k, maps.v, maps.dout, shared}.run();
  if (thread == 32 || thread == 64) BackwardAdder<kHead, kPairs>{p, shared, thread / 32 - 1}.run();
  if (thread >= 96 && p.rows_may_be_dead) BackwardCleaner<kHead, kPairs>{p, shared}.run();
}

template <class T, int kHead, bool kPairs> JAXATOR_DEVICE void backward_main(const BackwardParams& p, const BackwardMaps& maps) {
  const BackwardLayout<kHead, kPairs> shared{shared_base()};
  if (thread_x() == 0) shared.init_barriers();
  block_sync();
  // The pool is 168 * 384 registers: 24 and 240, or 40 and 232; 32 and 240 would wait for ever.
  if (thread_x() < 128) {
    shrink_registers<24>();
    feed(p, maps, shared);
  } else {
    grow_registers<240>();
    if (thread_x() < 256)
      BackwardConsumer<T, kHead, kPairs, 0>{p, shared}.run(maps.dk, maps.dv);
    else
      BackwardConsumer<T, kHead, kPairs, 1>{p, shared}.run(maps.dk, maps.dv);
  }
}

}  // namespace jaxator::hopper::attention

/// One entry.
#define JAXATOR_ATTENTION_BACKWARD(name, Element, head, pairs)                                                                \
  JAXATOR_KERNEL(384, 1)                                                                                                      \
  name(const JAXATOR_GRID_CONSTANT jaxator::hopper::TensorMap q, const JAXATOR_GRID_CONSTANT jaxator::hopper::TensorMap k,    \
       const JAXATOR_GRID_CONSTANT jaxator::hopper::TensorMap v, const JAXATOR_GRID_CONSTANT jaxator::hopper::TensorMap dout, \
       const JAXATOR_GRID_CONSTANT jaxator::hopper::TensorMap dk, const JAXATOR_GRID_CONSTANT jaxator::hopper::TensorMap dv,  \
       const JAXATOR_GRID_CONSTANT jaxator::hopper::attention::BackwardParams p) {                                            \
    jaxator::hopper::attention::backward_main<jaxator::hopper::Element, head, pairs>(p, {q, k, v, dout, dk, dv});             \
  }
