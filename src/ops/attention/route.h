/// @file
/// From a config to template arguments.
#pragma once

#include "src/ops/attention/config.h"
#include "src/tile/cpu/dot.h"
#include "src/tile/cpu/exp.h"

namespace jaxator::JAXATOR_ISA {

template <class Dot_, class T_> struct Route {
  using Dot = Dot_;
  using T = T_;
  /// 16-bit elements round away more than the fast exponential's error.
  static constexpr bool precise = dtype_of<T> == DType::f32;
};

/// Calls launch(Route{}).
template <class Launch> void with_route(const AttentionDesc& desc, [[maybe_unused]] const AttentionConfig& config,
                                        Launch&& launch) {
#if defined(__AVX512BF16__)
  if (config.dot == AttentionDot::bf16) return launch(Route<DotBf16, Bf16>{});
#endif
  if (desc.type == DType::f32) return launch(Route<DotF32, float>{});
  if (desc.type == DType::bf16) return launch(Route<DotF32, Bf16>{});
  launch(Route<DotF32, Fp16>{});
}

template <class R> JAXATOR_INLINE f32v softmax_exp(f32v x) {
  if constexpr (R::precise)
    return exp_precise(x);
  else
    return exp_fast(x);
}

}  // namespace jaxator::JAXATOR_ISA
