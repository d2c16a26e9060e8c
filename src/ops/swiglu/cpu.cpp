/// @file
/// SwiGLU on x86: bound by memory. 32 bfloat16 results take about 50 vector instructions and 192 bytes of traffic.
#include "src/ops/swiglu/cpu.h"

#include <algorithm>
#include <cmath>

#include "src/tile/cpu/lanes.h"
#include "src/tile/cpu/math.h"

namespace jaxator::JAXATOR_ISA {
namespace {

/// Options that a loop must not test for each vector.
template <class T_, bool limited_> struct Variant {
  using T = T_;
  static constexpr bool limited = limited_;
};

/// Calls launch(Variant{}) for the desc's types and options.
template <class Launch> void with_variant(const SwigluDesc& desc, Launch&& launch) {
  with_type(desc.type, [&](auto type) {
    using T = decltype(type);
    std::isinf(desc.limit) ? launch(Variant<T, false>{}) : launch(Variant<T, true>{});
  });
}

// NaN passes both: vmax and vmin return their second argument where the first comparison fails.
JAXATOR_INLINE f32v cut_above(f32v x, float limit) { return vmin(splat(limit), x); }
JAXATOR_INLINE f32v cut(f32v x, float limit) { return vmax(splat(-limit), vmin(splat(limit), x)); }

/// Gradients of one vector, left in place of dy and up.
template <class V> JAXATOR_INLINE void differentiate(f32v gate, f32v& dy_dgate, f32v& up_dup, float limit) {
  const f32v dy = dy_dgate, raw_up = up_dup;
  const f32v g = V::limited ? cut_above(gate, limit) : gate, u = V::limited ? cut(raw_up, limit) : raw_up;
  const Sigmoid s = sigmoid<typename V::T>(g);
  const f32v weighted = dy * s.up;
  dy_dgate = weighted * u * (1.0f + g * s.down);
  up_dup = weighted * g;
  if constexpr (V::limited) {
    dy_dgate = select(gate > splat(limit), f32v{}, dy_dgate);
    up_dup = select((raw_up > splat(limit)) | (raw_up < splat(-limit)), f32v{}, up_dup);
  }
}

/// Calls body(first element of the result, first element of gate, elements) for each piece, in tasks.
template <class Body> void for_pieces(const SwigluDesc& desc, const SwigluConfig& config, Executor& executor, Body&& body) {
  const int64_t tasks = (config.pieces + config.task_pieces - 1) / config.task_pieces, elements = desc.rows * desc.columns;
  auto run = [&](int64_t task, int64_t) {
    const int64_t end = std::min(config.pieces, (task + 1) * config.task_pieces);
    for (int64_t piece = task * config.task_pieces; piece < end; piece++)
      body(piece * config.piece, piece * config.stride, std::min(config.piece, elements - piece * config.piece));
    if (config.stream) _mm_sfence();
  };
  executor.parallel_for(tasks, tasks, run);
}

}  // namespace

void swiglu_forward(const SwigluDesc& desc, const SwigluConfig& config, const SwigluForwardArgs& args, Executor& executor) {
  with_variant(desc, [&](auto variant) {
    using V = decltype(variant);
    using T = typename V::T;
    const T* gates = static_cast<const T*>(args.gate);
    const T* ups = desc.packed ? gates + desc.columns : static_cast<const T*>(args.up);
    const int64_t ahead = config.ahead;
    const float limit = desc.limit;
    for_pieces(desc, config, executor, [&](int64_t result, int64_t operand, int64_t n) {
      const T *gate = gates + operand, *up = ups + operand;
      T* y = static_cast<T*>(args.y) + result;
      write_pairs<1>(config.stream, n, {y}, [&](int64_t c, auto which, T* const(&to)[1]) {
        prefetch_pair(gate + ahead + c);
        prefetch_pair(up + ahead + c);
        Pair g = load_pair(gate + c, which), u = load_pair(up + c, which);
        if constexpr (V::limited) {
          g = each([&](f32v x) { return cut_above(x, limit); }, g);
          u = each([&](f32v x) { return cut(x, limit); }, u);
        }
        store_pair(to[0], each(silu<T>, g) * u, which);
      });
    });
  });
}

void swiglu_backward(const SwigluDesc& desc, const SwigluConfig& config, const SwigluBackwardArgs& args, Executor& executor) {
  with_variant(desc, [&](auto variant) {
    using V = decltype(variant);
    using T = typename V::T;
    const T* gates = static_cast<const T*>(args.gate);
    const T* ups = desc.packed ? gates + desc.columns : static_cast<const T*>(args.up);
    const int64_t dy_ahead = desc.packed ? config.ahead / 2 : config.ahead;
    T* dgates = static_cast<T*>(args.dgate);
    T* dups = desc.packed ? dgates + desc.columns : static_cast<T*>(args.dup);
    const int64_t ahead = config.ahead;
    const float limit = desc.limit;
    for_pieces(desc, config, executor, [&](int64_t result, int64_t operand, int64_t n) {
      const T *gate = gates + operand, *up = ups + operand, *dy = static_cast<const T*>(args.dy) + result;
      T *dgate = dgates + operand, *dup = dups + operand;
      write_pairs<2>(config.stream, n, {dgate, dup}, [&](int64_t c, auto which, T* const(&to)[2]) {
        prefetch_pair(gate + ahead + c);
        prefetch_pair(up + ahead + c);
        prefetch_pair(dy + (dy_ahead) + c);
        const Pair g = load_pair(gate + c, which);
        Pair u = load_pair(up + c, which), d = load_pair(dy + c, which);
        differentiate<V>(g.lo, d.lo, u.lo, limit);
        differentiate<V>(g.hi, d.hi, u.hi, limit);
        store_pair(to[0], d, which);
        store_pair(to[1], u, which);
      });
    });
  });
}

}  // namespace jaxator::JAXATOR_ISA
