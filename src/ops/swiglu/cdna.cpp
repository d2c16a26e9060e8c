/// @file
/// SwiGLU on CDNA: bound by memory. A bfloat16 result takes 18 instructions of a lane on gfx942 and 13 on gfx950, two of them at
/// a quarter of the rate, and 6 bytes: while a compute unit moves those, at 8 bytes a clock, it could issue 46.
#include "src/ops/swiglu/cdna.h"
#include "src/tile/cdna/math.h"
#include "src/tile/cdna/unit.h"

namespace jaxator::cdna {
namespace {

/// What a thread has: offsets of its units in bytes from the block's first row. Units past the end of a row, and rows past the
/// last one, are nowhere: their loads read nothing, and nothing needs a branch.
template <class T, bool vectors> class Place {
 public:
  static constexpr u32 kElements = Unit<T, vectors>::kElements;

  JAXATOR_DEVICE explicit Place(const SwigluShape& shape)
      : shape_(shape), row_(i64{block_x()} * threads_y()), first_(block_y() * threads_x() * kSwigluUnits + thread_x()) {
    const i64 row = row_ + thread_y();
    units_ = row + 1 < shape.rows ? shape.units : row < shape.rows ? shape.last_units : 0;
  }

  JAXATOR_DEVICE Span operands(const void JAXATOR_GLOBAL* array) const { return part_of<T>(array, row_ * shape_.operand_stride); }
  JAXATOR_DEVICE Span results(const void JAXATOR_GLOBAL* array) const { return part_of<T>(array, row_ * shape_.result_stride); }
  JAXATOR_DEVICE u32 operand(int i) const { return offset(i, shape_.operand_stride); }
  JAXATOR_DEVICE u32 result(int i) const { return offset(i, shape_.result_stride); }

 private:
  JAXATOR_DEVICE u32 offset(int i, i64 stride) const {
    const u32 unit = first_ + i * threads_x();
    return unit < units_ ? (thread_y() * static_cast<u32>(stride) + unit * kElements) * u32{sizeof(T)} : Span::kNowhere;
  }

  const SwigluShape& shape_;
  const i64 row_;
  const u32 first_;
  u32 units_;
};

/// Values of a thread's units, and what becomes of them. Without a limit (which all threads know) nothing is compared with it: 6
/// of 20 instructions of an element.
template <class T, bool vectors> struct Values {
  using U = Unit<T, vectors>;
  static constexpr int kElements = U::kElements;

  template <bool limited> JAXATOR_DEVICE static void activate(U& gate, const U& up, float limit) {
    float g[kElements], u[kElements];
    gate.values(g), up.values(u);
#pragma unroll
    for (int e = 0; e < kElements; e++) {
      const float cut = limited ? min_or_nan(g[e], limit) : g[e], cut_up = limited ? clamp_or_nan(u[e], limit) : u[e];
      g[e] = cut * sigmoid<T>(cut) * cut_up;
    }
    gate.set(g);
  }

  /// Leaves the gradients of gate and up in their places.
  template <bool limited> JAXATOR_DEVICE static void differentiate(U& gate, U& up, const U& dy, float limit) {
    float g[kElements], u[kElements], d[kElements];
    gate.values(g), up.values(u), dy.values(d);
#pragma unroll
    for (int e = 0; e < kElements; e++) {
      const float cut = limited ? min_or_nan(g[e], limit) : g[e], cut_up = limited ? clamp_or_nan(u[e], limit) : u[e];
      const float s = sigmoid<T>(cut), weighted = d[e] * s;
      // 1 - s loses digits where s is near 1, but there the product with gate is added to 1.
      const float dgate = weighted * cut_up * (1.0f + cut * (1.0f - s)), dup = weighted * cut;
      g[e] = limited && g[e] > limit ? 0.0f : dgate;
      u[e] = limited && absolute(u[e]) > limit ? 0.0f : dup;
    }
    gate.set(g), up.set(u);
  }
};

template <class T, bool vectors> JAXATOR_DEVICE void forward(const SwigluForward& p) {
  const Place<T, vectors> place(p.shape);
  const Span gate = place.operands(p.gate), up = place.operands(p.up), y = place.results(p.y);
  Unit<T, vectors> gates[kSwigluUnits], ups[kSwigluUnits];
#pragma unroll
  for (int i = 0; i < kSwigluUnits; i++) gates[i].load(gate, place.operand(i)), ups[i].load(up, place.operand(i));
  const auto finish = [&](auto activate) {
#pragma unroll
    for (int i = 0; i < kSwigluUnits; i++) {
      activate(gates[i], ups[i], p.shape.limit);
      gates[i].store(y, place.result(i));
    }
  };
  using V = Values<T, vectors>;
  if (p.shape.limit < __builtin_inff())
    finish([](auto&... unit) { V::template activate<true>(unit...); });
  else
    finish([](auto&... unit) { V::template activate<false>(unit...); });
}

template <class T, bool vectors> JAXATOR_DEVICE void backward(const SwigluBackward& p) {
  const Place<T, vectors> place(p.shape);
  const Span gate = place.operands(p.gate), up = place.operands(p.up), dy = place.results(p.dy);
  const Span dgate = place.operands(p.dgate), dup = place.operands(p.dup);
  Unit<T, vectors> gates[kSwigluUnits], ups[kSwigluUnits], dys[kSwigluUnits];
#pragma unroll
  for (int i = 0; i < kSwigluUnits; i++) {
    gates[i].load(gate, place.operand(i)), ups[i].load(up, place.operand(i));
    dys[i].load(dy, place.result(i));
  }
  const auto finish = [&](auto differentiate) {
#pragma unroll
    for (int i = 0; i < kSwigluUnits; i++) {
      differentiate(gates[i], ups[i], dys[i], p.shape.limit);
      gates[i].store(dgate, place.operand(i)), ups[i].store(dup, place.operand(i));
    }
  };
  using V = Values<T, vectors>;
  if (p.shape.limit < __builtin_inff())
    finish([](auto&... unit) { V::template differentiate<true>(unit...); });
  else
    finish([](auto&... unit) { V::template differentiate<false>(unit...); });
}

}  // namespace

#define JAXATOR_ENTRIES(suffix, T, vectors)                                                \
  JAXATOR_KERNEL(256) swiglu_forward_##suffix(SwigluForward p) { forward<T, vectors>(p); } \
  JAXATOR_KERNEL(256) swiglu_backward_##suffix(SwigluBackward p) { backward<T, vectors>(p); }
JAXATOR_ENTRIES(f32, float, true)
JAXATOR_ENTRIES(bf16, Bf16, true)
JAXATOR_ENTRIES(f16, F16, true)
JAXATOR_ENTRIES(elements_f32, float, false)
JAXATOR_ENTRIES(elements_bf16, Bf16, false)
JAXATOR_ENTRIES(elements_f16, F16, false)

}  // namespace jaxator::cdna
