/// What attention's forward pass asks of the driver: which kernel, over how many blocks, how it sees the arrays, and what it is
/// told about visibility.
#include "jaxator/attention.h"
#include "src/ops/attention/hopper_forward.h"
#include "tests/cpp/cuda_testing.h"

namespace jaxator::testing {
namespace {

using hopper::attention::forward_tile;
using hopper::attention::ForwardParams;
using hopper::attention::kUnbounded;

/// Addresses that nobody reads: the stub only records them.
void* address(int i) { return reinterpret_cast<void*>(int64_t{0x7000000000} + i * int64_t{0x1000000000}); }

AttentionForwardArgs arguments() {
  AttentionForwardArgs args;
  args.q = address(0), args.k = address(1), args.v = address(2), args.out = address(3);
  args.lse = static_cast<float*>(address(4)), args.bias = address(5), args.mask = static_cast<uint8_t*>(address(6));
  args.query_lengths = static_cast<int32_t*>(address(7)), args.key_lengths = static_cast<int32_t*>(address(8));
  args.query_segment_ids = static_cast<int32_t*>(address(9)), args.key_segment_ids = static_cast<int32_t*>(address(10));
  return args;
}

AttentionDesc desc_of(int64_t head_size, int64_t value_size, DType type = DType::bf16) {
  return {.type = type,
          .batch = 3,
          .query_length = 300,
          .key_length = 200,
          .heads = 8,
          .kv_heads = 2,
          .head_size = head_size,
          .value_size = value_size,
          .scale = 0.125f};
}

class CudaAttentionForward : public StubCuda {
 protected:
  /// What one call, prepared before, asks: preparing launches nothing, launching loads nothing.
  StubRecord run(const AttentionDesc& desc) {
    attention_forward(desc, arguments(), prepared(device_));
    EXPECT_EQ(stub_record().launches.size(), 0u);
    stub_reset();
    attention_forward(desc, arguments(), launching(device_));
    EXPECT_EQ(stub_record().loads.size(), 0u);
    StubRecord record = stub_record();
    stub_reset();
    return record;
  }
  ForwardParams params(const AttentionDesc& desc) { return run(desc).launches.at(0).argument<ForwardParams>(4); }

  const int device_ = fresh_device();
};

TEST_F(CudaAttentionForward, KernelByTypeSizeAndOptions) {
  const int64_t sizes[][3] = {{8, 8, 64}, {64, 64, 64}, {64, 72, 128}, {128, 8, 128}, {136, 64, 256}, {256, 256, 256}};
  for (const auto& [head, value, size] : sizes)
    for (DType type : {DType::bf16, DType::f16})
      for (bool pairs : {false, true}) {
        AttentionDesc desc = desc_of(head, value, type);
        desc.causal = true, desc.window_left = 7, desc.has_query_lengths = desc.has_key_lengths = true;
        desc.has_segment_ids = pairs;
        const StubLaunch launch = run(desc).launches.at(0);
        const auto tile = forward_tile(static_cast<int>(size), pairs);
        EXPECT_EQ(launch.entry,
                  std::string("attention_forward_") + (pairs ? "pairs_" : "") + (type == DType::bf16 ? "bf16" : "f16"));
        EXPECT_EQ(launch.block, (std::array<unsigned, 3>{unsigned(tile.threads()), 1, 1}));
        EXPECT_EQ(launch.shared_bytes, unsigned(tile.shared_bytes()));
        EXPECT_LE(tile.shared_bytes(), kStubMostSharedBytes);
        const int64_t tiles = (300 + tile.queries - 1) / tile.queries;
        EXPECT_EQ(launch.grid, (std::array<unsigned, 3>{unsigned(std::min<int64_t>(tiles * 3 * 8, kStubMultiprocessors)), 1, 1}));
        EXPECT_EQ(launch.argument<ForwardParams>(4).tiles, tiles);
      }
}

TEST_F(CudaAttentionForward, OptionsThatArePairs) {
  const auto entry = [&](auto&& change) {
    AttentionDesc desc = desc_of(64, 64);
    change(desc);
    return run(desc).launches.at(0).entry;
  };
  EXPECT_EQ(entry([](AttentionDesc& d) { d.has_mask = true; }), "attention_forward_pairs_bf16");
  EXPECT_EQ(entry([](AttentionDesc& d) { d.has_bias = true; }), "attention_forward_pairs_bf16");
  EXPECT_EQ(entry([](AttentionDesc& d) { d.scale = 0; }), "attention_forward_pairs_bf16");
  EXPECT_EQ(entry([](AttentionDesc& d) { d.scale = -1; }), "attention_forward_pairs_bf16");
  EXPECT_EQ(entry([](AttentionDesc& d) { d.window_right = 3; }), "attention_forward_bf16");
}

TEST_F(CudaAttentionForward, ArraysAsTheCopyEngineSeesThem) {
  const StubRecord record = run(desc_of(96, 80));
  const auto tile = forward_tile(128, false);
  struct Expected {
    uint64_t columns, heads, length;
    unsigned rows;
  };
  const Expected expected[] = {{96, 8, 300, unsigned(tile.queries)},
                               {96, 2, 200, unsigned(tile.keys)},
                               {80, 2, 200, unsigned(tile.keys)},
                               {80, 8, 300, 64}};
  ASSERT_EQ(record.maps.size(), 4u);
  for (int i = 0; i < 4; i++) {
    const auto& [columns, heads, length, rows] = expected[i];
    const StubTensorMap& map = record.maps[i];
    EXPECT_EQ(map.address, address(i));
    EXPECT_EQ(map.sizes, (std::vector<uint64_t>{columns, heads, length, 3}));
    EXPECT_EQ(map.strides, (std::vector<uint64_t>{columns * 2, columns * heads * 2, columns * heads * length * 2}));
    EXPECT_EQ(map.box, (std::vector<unsigned>{64, 1, rows, 1}));
  }
}

TEST_F(CudaAttentionForward, WhatTheKernelIsToldAboutVisibility) {
  AttentionDesc desc = desc_of(64, 64);
  const ForwardParams plain = params(desc);
  EXPECT_EQ(plain.visibility.window_left, kUnbounded);
  EXPECT_EQ(plain.visibility.window_right, kUnbounded);
  EXPECT_EQ(plain.visibility.query_lengths, nullptr);
  EXPECT_EQ(plain.visibility.mask.data, nullptr);
  EXPECT_EQ(plain.heads_per_key_head, 4);
  EXPECT_FLOAT_EQ(plain.scale, 0.125f * 1.442695041f);

  desc.causal = true, desc.window_left = int64_t{1} << 40, desc.window_right = 9, desc.causal_bottom_right = true;
  desc.has_bias = true, desc.bias_type = DType::f16;
  desc.bias_shape[1] = 8, desc.bias_shape[3] = 200;
  desc.has_mask = true, desc.mask_shape[0] = 3, desc.mask_shape[2] = 300;
  const auto visibility = params(desc).visibility;
  EXPECT_EQ(visibility.window_left, 1 << 30);
  EXPECT_EQ(visibility.window_right, 0);
  EXPECT_EQ(visibility.bottom_right, 1);
  const auto& bias = visibility.bias;
  EXPECT_EQ((std::array<long long, 4>{bias.batch, bias.head, bias.query, bias.key}), (std::array<long long, 4>{0, 200, 0, 1}));
  EXPECT_EQ(bias.paired, 1);
  const auto& mask = visibility.mask;
  EXPECT_EQ((std::array<long long, 4>{mask.batch, mask.head, mask.query, mask.key}), (std::array<long long, 4>{300, 0, 1, 0}));
  EXPECT_EQ(mask.paired, 0);
}

TEST_F(CudaAttentionForward, MoreThanTwoToThe32Bytes) {
  AttentionDesc desc = desc_of(128, 128);
  desc.batch = 5, desc.query_length = 1 << 20, desc.heads = 32;
  const StubRecord record = run(desc);
  EXPECT_EQ(record.maps.at(0).strides.back(), uint64_t{128} * 2 * 32 << 20);
  EXPECT_EQ(record.launches.at(0).grid[0], unsigned(kStubMultiprocessors));
}

TEST_F(CudaAttentionForward, EmptyProblemsLaunchNothing) {
  for (auto field : {&AttentionDesc::batch, &AttentionDesc::query_length}) {
    AttentionDesc desc = desc_of(64, 64);
    desc.*field = 0;
    EXPECT_EQ(run(desc).launches.size(), 0u);
  }
  AttentionDesc desc = desc_of(64, 64);
  desc.heads = desc.kv_heads = 0;
  EXPECT_EQ(run(desc).launches.size(), 0u);
  // Without keys the output is zeros, and those must be written.
  desc = desc_of(64, 64), desc.key_length = 0;
  EXPECT_EQ(run(desc).launches.size(), 1u);
}

TEST_F(CudaAttentionForward, RefusalsNameTheValueAndTheRule) {
  const auto refusal = [&](auto&& change) {
    AttentionDesc desc = desc_of(64, 64);
    change(desc);
    return error_of([&] { attention_forward(desc, arguments(), prepared(device_)); });
  };
  EXPECT_EQ(refusal([](AttentionDesc& d) { d.type = DType::f32; }), "type=float32: the CUDA kernels take bfloat16 and float16");
  EXPECT_EQ(refusal([](AttentionDesc& d) { d.head_size = 12; }), "head_size=12: must be a multiple of 8 on CUDA");
  EXPECT_EQ(refusal([](AttentionDesc& d) { d.value_size = 9; }), "value_size=9: must be a multiple of 8 on CUDA");
  EXPECT_EQ(refusal([](AttentionDesc& d) { d.batch = int64_t{1} << 29; }),
            "batch * heads * tiles of queries=8589934592: must be below 2^31 on CUDA");
  EXPECT_EQ(refusal([](AttentionDesc& d) { d.window_left = -2; }), "window_left=-2: must be -1 (unbounded) or not negative");
}

}  // namespace
}  // namespace jaxator::testing
