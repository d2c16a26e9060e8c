/// @file
/// SwiGLU on Hopper: bound by memory. A bfloat16 result takes about 15 instructions, two of them of the special-function unit,
/// and 6 bytes of traffic: a third of what an SM could issue meanwhile.
#include "src/ops/swiglu/hopper.h"
#include "src/tile/hopper/math.h"
#include "src/tile/hopper/unit.h"

namespace jaxator::hopper {
namespace {

/// Calls body(i, offset in gate and up, offset in y) for each unit of this thread.
template <int elements, class Body> JAXATOR_DEVICE void for_units(const SwigluShape& shape, Body&& body) {
  const u32 pieces = static_cast<u32>(shape.pieces), row_block = block_x() / pieces, piece = block_x() - row_block * pieces;
  const i64 row = i64{row_block} * threads_y() + thread_y();
  if (row >= shape.rows) return;
  const i64 first = i64{piece} * (threads_x() * kSwigluUnits) + thread_x();
#pragma unroll
  for (int i = 0; i < kSwigluUnits; i++) {
    const i64 unit = first + i * threads_x();
    if (unit < shape.units) body(i, row * shape.operand_stride + unit * elements, row * shape.result_stride + unit * elements);
  }
}

template <class T, bool vectors> JAXATOR_DEVICE void forward(const SwigluForward& p) {
  using U = Unit<T, vectors>;
  constexpr int kElements = U::kElements;
  U gates[kSwigluUnits], ups[kSwigluUnits];
  for_units<kElements>(p.shape, [&](int i, i64 operand, i64) {
    gates[i].load(static_cast<const T*>(p.gate) + operand);
    ups[i].load(static_cast<const T*>(p.up) + operand);
  });
  for_units<kElements>(p.shape, [&](int i, i64, i64 result) {
    float g[kElements], u[kElements];
    gates[i].values(g), ups[i].values(u);
#pragma unroll
    for (int e = 0; e < kElements; e++) {
      const float gate = min_or_nan(g[e], p.shape.limit);
      g[e] = gate * sigmoid<T>(gate) * clamp_or_nan(u[e], p.shape.limit);
    }
    gates[i].set(g);
    gates[i].store(static_cast<T*>(p.y) + result);
  });
}

template <class T, bool vectors> JAXATOR_DEVICE void backward(const SwigluBackward& p) {
  using U = Unit<T, vectors>;
  constexpr int kElements = U::kElements;
  U gates[kSwigluUnits], ups[kSwigluUnits], dys[kSwigluUnits];
  for_units<kElements>(p.shape, [&](int i, i64 operand, i64 result) {
    gates[i].load(static_cast<const T*>(p.gate) + operand);
    ups[i].load(static_cast<const T*>(p.up) + operand);
    dys[i].load(static_cast<const T*>(p.dy) + result);
  });
  for_units<kElements>(p.shape, [&](int i, i64 operand, i64) {
    float g[kElements], u[kElements], d[kElements];
    gates[i].values(g), ups[i].values(u), dys[i].values(d);
#pragma unroll
    for (int e = 0; e < kElements; e++) {
      const float limit = p.shape.limit;
      const float gate = min_or_nan(g[e], limit), up = clamp_or_nan(u[e], limit), s = sigmoid<T>(gate), weighted = d[e] * s;
      // 1 - s loses digits where s is near 1, but there the product with gate is added to 1.
      g[e] = g[e] > limit ? 0.0f : weighted * up * (1.0f + gate * (1.0f - s));
      u[e] = absolute(u[e]) > limit ? 0.0f : weighted * gate;
    }
    gates[i].set(g), ups[i].set(u);
    gates[i].store(static_cast<T*>(p.dgate) + operand);
    ups[i].store(static_cast<T*>(p.dup) + operand);
  });
}

}  // namespace

#define JAXATOR_ENTRIES(suffix, T, vectors)                                                                               \
  JAXATOR_KERNEL(256, 4) swiglu_forward_##suffix(const JAXATOR_GRID_CONSTANT SwigluForward p) { forward<T, vectors>(p); } \
  JAXATOR_KERNEL(256, 4) swiglu_backward_##suffix(const JAXATOR_GRID_CONSTANT SwigluBackward p) { backward<T, vectors>(p); }
JAXATOR_ENTRIES(f32, float, true)
JAXATOR_ENTRIES(bf16, Bf16, true)
JAXATOR_ENTRIES(f16, F16, true)
JAXATOR_ENTRIES(elements_f32, float, false)
JAXATOR_ENTRIES(elements_bf16, Bf16, false)
JAXATOR_ENTRIES(elements_f16, F16, false)

}  // namespace jaxator::hopper
