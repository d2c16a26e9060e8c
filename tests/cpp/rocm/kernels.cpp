/// @file
/// Kernels for tests of the run time: a right one, and one for each kind of fault that a launch must report.
#include "src/tile/cdna/base.h"

namespace jaxator::cdna {

struct Part {
  long long begin, end;
};

JAXATOR_KERNEL(256) scale(float JAXATOR_GLOBAL* array, float factor, Part part) {
  const i64 i = part.begin + i64{block_x()} * threads_x() + thread_x();
  if (i < part.end) array[i] *= factor;
}

JAXATOR_KERNEL(1024) nothing() {}

extern __attribute__((address_space(3))) float dynamic[];

/// Reverses a block's elements through dynamic LDS, with static LDS beside it.
JAXATOR_KERNEL(256) reverse(float JAXATOR_GLOBAL* array) {
  JAXATOR_SHARED float first[1];
  const u32 i = thread_x(), last = threads_x() - 1;
  dynamic[i] = array[i];
  if (i == 0) first[0] = 1;
  block_sync();
  array[i] = dynamic[last - i] * first[0];
}

/// Without the barrier.
JAXATOR_KERNEL(256) race(float JAXATOR_GLOBAL* array) {
  JAXATOR_SHARED float shared[256];
  const u32 i = thread_x(), last = threads_x() - 1;
  shared[i] = array[i];
  asm volatile("s_waitcnt lgkmcnt(0)" ::: "memory");
  array[i] = shared[last - i];
}

JAXATOR_KERNEL(256) past_the_end(float JAXATOR_GLOBAL* array, unsigned count) { array[count + thread_x()] = 1; }

/// A branch on what nobody wrote.
JAXATOR_KERNEL(256) uninitialised(const float JAXATOR_GLOBAL* array, float JAXATOR_GLOBAL* out) {
  if (array[0] == 0) out[thread_x()] = 1;
}

/// The sum does not wait for the load.
JAXATOR_KERNEL(256) missing_wait(const float JAXATOR_GLOBAL* array, float JAXATOR_GLOBAL* out) {
  float value;
  asm volatile("global_load_dword %0, %1, off\n\tv_add_f32 %0, 1.0, %0\n\ts_waitcnt vmcnt(0)"
               : "=&v"(value)
               : "v"(array + thread_x())
               : "memory");
  out[thread_x()] = value;
}

}  // namespace jaxator::cdna
