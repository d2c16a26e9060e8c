// src/layout as GPU code: layouts are template arguments, and of their offsets only shifts, masks and additions are left.
// Compiled by tests/python/test_layout_device.py for each GPU target, without any vendor's headers.

#include "src/layout/offset.h"
#include "src/layout/recast.h"

using namespace jaxator::layout;

#if defined(__AMDGCN__) && !defined(__HIP__)
#define KERNEL extern "C" __attribute__((amdgpu_kernel, visibility("protected")))
#define DEVICE
#else
#define KERNEL extern "C" __attribute__((global))
#define DEVICE __attribute__((device))
#endif

namespace {

template <SwizzledLayout L> struct SharedTile {
  static constexpr int64_t elements = size(L.outer).value;
  DEVICE static unsigned at(unsigned row, unsigned column) { return offset<L>(row, column); }
};

constexpr SwizzledLayout kBlock = composition(Swizzle(3, 3, 3), Layout(tuple(8, 64), tuple(64, 1)));
using Tile128 = SharedTile<tile_to_shape(kBlock, tuple(128, 64))>;
static_assert(Tile128::elements == 8192);

/// The layout of thread and value of a C fragment with rows in fours.
constexpr Layout kFragment(tuple(tuple(4, 8, 4), tuple(2, 2)), tuple(tuple(32, 1, 128), tuple(16, 8)));
constexpr Layout kInverse = right_inverse(kFragment);
static_assert(coalesce(composition(kFragment, kInverse)) == Layout(512));

}  // namespace

KERNEL void layout_shared(unsigned* out, unsigned row, unsigned column) { *out = Tile128::at(row, column); }

KERNEL void layout_fragment(unsigned* out, unsigned thread, unsigned value) { *out = offset<kFragment>(thread, value); }

/// Folds to 1 where the algebra holds.
KERNEL void layout_folded(unsigned* out) {
  unsigned equal = 0;
  for (unsigned i = 0; i < 8; i++) equal += offset<kFragment>(offset<kInverse>(i)) == i;
  *out = equal == 8;
}

/// Checks of run time are traps here.
KERNEL void layout_checked(int64_t* out, int64_t i) { *out = kFragment(i); }
