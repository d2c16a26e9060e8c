// src/numeric as GPU code: one thread a block of 32. Compiled by tests/python/test_numeric_builds.py for each GPU target, without
// any vendor's headers; what it computes is what the functions of numeric_abi.cpp compute.

#include "src/numeric/blocks.h"
#include "src/numeric/hadamard.h"

using namespace jaxator::numeric;

#if defined(__AMDGCN__) && !defined(__HIP__)
#define KERNEL extern "C" __attribute__((amdgpu_kernel, visibility("protected")))
#define DEVICE
#else
#define KERNEL extern "C" __attribute__((global))
#define DEVICE __attribute__((device))
#endif

namespace {

#if defined(__AMDGCN__)
DEVICE int64_t thread_index() { return int64_t{__builtin_amdgcn_workgroup_id_x()} * 64 + __builtin_amdgcn_workitem_id_x(); }
#else
DEVICE int64_t thread_index() { return int64_t{__nvvm_read_ptx_sreg_ctaid_x()} * 64 + __nvvm_read_ptx_sreg_tid_x(); }
#endif

constexpr ScaleMode kMode = ScaleMode::rceil;

template <Format element> DEVICE void quantise(const uint32_t* x, int64_t block, Key key, uint8_t* scales, uint8_t* codes) {
  const KeyedStochastic rounding_of{key, Stream::round_x, static_cast<uint64_t>(block) * kBlock, 1};
  scales[block] = quantise_block<element, f32>(x + block * kBlock, 1, kMode, rounding_of, codes + block * kBlockBytes<element>);
}

}  // namespace

/// Groups of 64 threads; blocks is a multiple of 64.
KERNEL void numeric_quantise_e2m1(const uint32_t* x, uint32_t key0, uint32_t key1, uint8_t* scales, uint8_t* codes) {
  quantise<e2m1>(x, thread_index(), {{key0, key1}}, scales, codes);
}
KERNEL void numeric_quantise_e4m3(const uint32_t* x, uint32_t key0, uint32_t key1, uint8_t* scales, uint8_t* codes) {
  quantise<e4m3>(x, thread_index(), {{key0, key1}}, scales, codes);
}
KERNEL void numeric_dequantise_e2m1(const uint8_t* codes, const uint8_t* scales, uint16_t* y) {
  const int64_t block = thread_index();
  dequantise_block<e2m1, bf16>(codes + block * kBlockBytes<e2m1>, scales[block], y + block * kBlock, 1);
}
KERNEL void numeric_convert_fnuz(const uint32_t* x, uint8_t* e4m3_codes, uint8_t* e5m2_codes) {
  for (int64_t i = thread_index() * kBlock, end = i + kBlock; i < end; i++) {
    e4m3_codes[i] = convert<f32, e4m3fnuz>(x[i], NearestEven{}, Overflow::saturate);
    e5m2_codes[i] = convert<f32, e5m2fnuz>(x[i]);
  }
}
KERNEL void numeric_table_e4m3(const uint8_t* codes, uint32_t* y) {
  for (int64_t i = thread_index() * kBlock, end = i + kBlock; i < end; i++) y[i] = decode_table<e4m3, f32>[codes[i]];
}
KERNEL void numeric_hadamard_32(float* x, uint32_t signs) {
  float values[kBlock];
  float* group = x + thread_index() * kBlock;
  for (int i = 0; i < kBlock; i++) values[i] = group[i];
  hadamard(values, signs);
  for (int i = 0; i < kBlock; i++) group[i] = values[i];
}
