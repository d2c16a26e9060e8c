/// @file
/// A matmul desc in its simplest form: batches that are one bigger matrix become one.
#pragma once

#include "jaxator/matmul.h"

namespace jaxator {

/// The same numbers at the same addresses, with as small a batch and as few terms as can be: rows of a batch that share b are
/// rows of one matrix, and a sum over matrices whose k is the slow dimension is one longer k.
inline MatmulDesc simplified(MatmulDesc desc) {
  if (desc.sum == 0) desc.k = 0, desc.sum = 1;
  if (desc.transpose_a && !desc.transpose_b && desc.sum_a && desc.sum_b) desc.k *= desc.sum, desc.sum = 1;
  const bool own_bias = desc.has_bias && desc.batch_bias;
  if (!desc.transpose_a && desc.batch_a && !desc.batch_b && !own_bias && desc.sum == 1) desc.m *= desc.batch, desc.batch = 1;
  return desc;
}

/// Throws UnsupportedError where the kernels of a target take no operands of eight bits.
inline void refuse_eight_bits(const MatmulDesc& desc, const char* target) {
  if (desc.eight_bits()) throw UnsupportedError(std::string("operands of eight bits: the ") + target + " kernels take none");
}

/// Matrices of each operand.
inline int64_t matrices_a(const MatmulDesc& desc) { return (desc.batch_a ? desc.batch : 1) * (desc.sum_a ? desc.sum : 1); }
inline int64_t matrices_b(const MatmulDesc& desc) { return (desc.batch_b ? desc.batch : 1) * (desc.sum_b ? desc.sum : 1); }

/// Of an operand, the one that belongs to a matrix of the batch and a term of the sum.
inline int64_t matrix_a(const MatmulDesc& desc, int64_t batch, int64_t term) {
  return (desc.batch_a ? batch * (desc.sum_a ? desc.sum : 1) : 0) + (desc.sum_a ? term : 0);
}
inline int64_t matrix_b(const MatmulDesc& desc, int64_t batch, int64_t term) {
  return (desc.batch_b ? batch * (desc.sum_b ? desc.sum : 1) : 0) + (desc.sum_b ? term : 0);
}

}  // namespace jaxator
