/// @file
/// What both passes of attention share on the host of a CUDA device.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "jaxator/attention.h"
#include "src/ops/attention/hopper_params.h"
#include "src/runtime/cuda/tensor_map.h"

namespace jaxator::cuda {

/// Blocks that run at once where each fills a multiprocessor. How work is dealt to them never changes a result.
inline int64_t multiprocessors(int device) {
  int handle = 0, count = 0;
  check(driver().DeviceGet(&handle, device), "cuDeviceGet");
  check(driver().DeviceGetAttribute(&count, kMultiprocessorCount, handle), "cuDeviceGetAttribute");
  return count;
}

/// Columns of one copy: 128 bytes, what the swizzle spans.
inline constexpr uint32_t kBoxColumns = 64;

/// An array [B, L, N, D] as the copy engine sees it, (D, N, L, B): boxes of 64 columns of `rows` rows of one head. D need not be
/// a multiple of 64 (zeros are read beyond it, nothing is written there), nor L of `rows`; D must be a multiple of 8.
inline TensorMap attention_map(const char* name, DType type, const void* address, int64_t batch, int64_t length, int64_t heads,
                               int64_t size, uint32_t rows) {
  const uint64_t row_bytes = static_cast<uint64_t>(size * size_of(type));
  const uint64_t n = static_cast<uint64_t>(heads), l = static_cast<uint64_t>(length), b = static_cast<uint64_t>(batch);
  return tensor_map(name, type, address,
                    {{static_cast<uint64_t>(size), 0, static_cast<uint32_t>(kBoxColumns * 2 / size_of(type))},
                     {n, row_bytes, 1},
                     {l, row_bytes * n, rows},
                     {b, row_bytes * n * l, 1}});
}

inline hopper::attention::PairArray pair_array(const AttentionDesc& desc, const int64_t (&shape)[4], const void* data,
                                               int64_t item_bytes) {
  int64_t strides[4], stride = 1;
  for (int i = 3; i >= 0; i--) {
    strides[i] = shape[i] == 1 ? 0 : stride;
    stride *= shape[i];
  }
  const bool even_rows = shape[3] == desc.key_length && desc.key_length % 2 == 0 && strides[3] == 1;
  const bool aligned = reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(2 * item_bytes) == 0;
  return {data, strides[0], strides[1], strides[2], strides[3], data != nullptr && even_rows && aligned};
}

inline hopper::attention::Visibility visibility_of(const AttentionDesc& desc, const AttentionInputs& inputs) {
  const auto window = [](int64_t size) {
    constexpr int64_t kMost = int64_t{1} << 30;  // no sequence is longer
    return size < 0 ? hopper::attention::kUnbounded : static_cast<int>(std::min(size, kMost));
  };
  const auto if_present = [](bool present, const auto* data) { return present ? data : nullptr; };
  hopper::attention::Visibility v{};
  v.query_lengths = if_present(desc.has_query_lengths, inputs.query_lengths);
  v.key_lengths = if_present(desc.has_key_lengths, inputs.key_lengths);
  v.query_segments = if_present(desc.has_segment_ids, inputs.query_segment_ids);
  v.key_segments = if_present(desc.has_segment_ids, inputs.key_segment_ids);
  if (desc.has_mask) v.mask = pair_array(desc, desc.mask_shape, inputs.mask, 1);
  if (desc.has_bias) v.bias = pair_array(desc, desc.bias_shape, inputs.bias, size_of(desc.bias_type));
  v.bias_type = static_cast<int>(desc.bias_type);
  v.query_length = static_cast<int>(desc.query_length);
  v.key_length = static_cast<int>(desc.key_length);
  v.window_left = window(desc.window_left);
  v.window_right = desc.causal ? 0 : window(desc.window_right);
  v.bottom_right = desc.causal_bottom_right;
  return v;
}

/// Throws UnsupportedError for what the kernels of both passes lack, Error for what fits no kernel.
inline void require_cuda_attention(const AttentionDesc& desc) {
  const auto refuse = [](const char* name, const std::string& value, const std::string& rule) {
    throw UnsupportedError(std::string(name) + "=" + value + ": " + rule);
  };
  if (desc.type == DType::f32) refuse("type", name_of(desc.type), "the CUDA kernels take bfloat16 and float16");
  if (desc.head_size % 8 != 0) refuse("head_size", std::to_string(desc.head_size), "must be a multiple of 8 on CUDA");
  if (desc.value_size % 8 != 0) refuse("value_size", std::to_string(desc.value_size), "must be a multiple of 8 on CUDA");
  if (desc.batch > INT32_MAX) refuse("batch", std::to_string(desc.batch), "must be below 2^31 on CUDA");
}

}  // namespace jaxator::cuda
