/// @file
/// What both passes of attention share on the host of a ROCm device.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "jaxator/attention.h"
#include "src/ops/attention/cdna_params.h"

namespace jaxator::rocm {

inline cdna::attention::PairArray pair_array(const int64_t (&shape)[4], const void* data) {
  int64_t strides[4], stride = 1;
  for (int i = 3; i >= 0; i--) {
    strides[i] = shape[i] == 1 ? 0 : stride;
    stride *= shape[i];
  }
  return {data, strides[0], strides[1], strides[2], strides[3]};
}

inline cdna::attention::Visibility visibility_of(const AttentionDesc& desc, const AttentionInputs& inputs) {
  const auto window = [](int64_t size) {
    constexpr int64_t kMost = int64_t{1} << 30;  // no sequence is longer
    return size < 0 ? cdna::attention::kUnbounded : static_cast<int>(std::min(size, kMost));
  };
  const auto if_present = [](bool present, const auto* data) { return present ? data : nullptr; };
  cdna::attention::Visibility v{};
  v.query_lengths = if_present(desc.has_query_lengths, inputs.query_lengths);
  v.key_lengths = if_present(desc.has_key_lengths, inputs.key_lengths);
  v.query_segments = if_present(desc.has_segment_ids, inputs.query_segment_ids);
  v.key_segments = if_present(desc.has_segment_ids, inputs.key_segment_ids);
  if (desc.has_mask) v.mask = pair_array(desc.mask_shape, inputs.mask);
  if (desc.has_bias) v.bias = pair_array(desc.bias_shape, inputs.bias);
  v.bias_type = static_cast<int>(desc.bias_type);
  v.query_length = static_cast<int>(desc.query_length);
  v.key_length = static_cast<int>(desc.key_length);
  v.window_left = window(desc.window_left);
  v.window_right = desc.causal ? 0 : window(desc.window_right);
  v.bottom_right = desc.causal_bottom_right;
  return v;
}

/// Whether the kernels must look at each pair of query and key: mask, bias, segments, or a scale that could turn -inf around or
/// by which lse could not be divided.
inline bool reads_pairs(const AttentionDesc& desc) {
  constexpr float kLeastScale = 1e-30f;
  return desc.has_mask || desc.has_bias || desc.has_segment_ids || !(desc.scale >= kLeastScale);
}

/// The width of the tiles that hold a row of q and of v: zeros are read beyond their columns.
inline int native_head(const AttentionDesc& desc) { return std::max(desc.head_size, desc.value_size) <= 64 ? 64 : 128; }

/// Throws UnsupportedError for what the kernels of both passes lack.
inline void require_rocm_attention(const AttentionDesc& desc) {
  const auto refuse = [](const std::string& name, const std::string& value, const std::string& rule) {
    throw UnsupportedError(name + "=" + value + ": " + rule);
  };
  const auto at_most = [&](const char* name, int64_t value, int64_t most) {
    if (value > most) refuse(name, std::to_string(value), "must be at most " + std::to_string(most) + " on ROCm");
  };
  if (desc.type == DType::f32) refuse("type", name_of(desc.type), "the ROCm kernels take bfloat16 and float16");
  for (const auto& [name, size] : {std::pair{"head_size", desc.head_size}, std::pair{"value_size", desc.value_size}}) {
    at_most(name, size, 128);
    if (size % 8 != 0) refuse(name, std::to_string(size), "must be a multiple of 8 on ROCm");
  }
  // Positions are 32 bits, and sums of three of them are formed.
  at_most("query_length", desc.query_length, (int64_t{1} << 29) - 1);
  at_most("key_length", desc.key_length, (int64_t{1} << 29) - 1);
  at_most("batch", desc.batch, INT32_MAX);
  // Offsets are 32 bits within a tile: 64 rows of all heads, and of what is known pair by pair 32 rows of four bytes.
  at_most("heads * size", desc.heads * std::max(desc.head_size, desc.value_size), (int64_t{1} << 23) - 1);
  if (desc.has_mask || desc.has_bias) {
    at_most("query_length with a mask or a bias", desc.query_length, (int64_t{1} << 23) - 1);
    at_most("key_length with a mask or a bias", desc.key_length, (int64_t{1} << 23) - 1);
  }
}

/// Blocks of a grid are counted in 32 bits, and so are their threads.
inline void require_blocks(const std::string& what, int64_t blocks) {
  constexpr int64_t kMost = (int64_t{1} << 32) / 512 - 1;
  if (blocks > kMost)
    throw UnsupportedError(what + "=" + std::to_string(blocks) + ": must be at most " + std::to_string(kMost) + " on ROCm");
}

}  // namespace jaxator::rocm
