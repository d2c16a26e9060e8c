/// @file
/// Values of each query row that the backward kernels need, by head: lse to base 2 and delta. Bound by memory: out and dout are
/// read once, 16 bytes a lane.
#include "src/ops/attention/cdna_common.h"
#include "src/tile/cdna/reduce.h"

namespace jaxator::cdna::attention {
namespace {

/// 16 lanes a row of [B, T, N]. A row without a visible key has gradients 0 by selection, whatever its cotangents hold.
template <class T> JAXATOR_DEVICE void row_values(const BackwardParams& p) {
  const u32 lane = thread_x() % 16;
  const i64 row = i64{block_x()} * 16 + thread_x() / 16, rows = i64{p.batch} * p.see.query_length * p.heads;
  const bool real = row < rows, loads = real && lane * 8 < static_cast<u32>(p.value_size);
  float sum = 0;
  if (loads) {
    const i64 at = row * p.value_size + lane * 8;
    float o[8], g[8];
    unpack<T>(*reinterpret_cast<const Vector JAXATOR_GLOBAL*>(static_cast<const T JAXATOR_GLOBAL*>(p.out) + at), o);
    unpack<T>(*reinterpret_cast<const Vector JAXATOR_GLOBAL*>(static_cast<const T JAXATOR_GLOBAL*>(p.dout) + at), g);
#pragma unroll
    for (int i = 0; i < 8; i++) sum += o[i] * g[i];
  }
  sum = row_sum(sum);
  if (lane != 0 || !real) return;
  const float lse = p.lse[row];
  const bool dead = lse == minus_infinity();
  const i64 head = row % p.heads, query = row / p.heads % p.see.query_length, batch = row / p.heads / p.see.query_length;
  const i64 to = (batch * p.heads + head) * p.see.query_length + query;
  p.row_lse[to] = p.pairs ? (dead ? __builtin_inff() : lse * kLog2E) : dead ? minus_infinity() : -lse / p.factor;
  p.row_delta[to] = dead ? 0 : (p.dlse != nullptr ? p.dlse[row] : 0.0f) - sum;
}

}  // namespace
}  // namespace jaxator::cdna::attention

using namespace jaxator::cdna;
using attention::BackwardParams, attention::row_values;

JAXATOR_KERNEL(256) attention_backward_rows_bf16(BackwardParams p) { row_values<Bf16>(p); }
JAXATOR_KERNEL(256) attention_backward_rows_f16(BackwardParams p) { row_values<F16>(p); }
