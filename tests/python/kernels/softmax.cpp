// softmax(scale x) over the rows of an array, and its gradient: a block for each row. C++ for clang alone, no CUDA header:
//
//   clang++ -x cuda --cuda-device-only -nocudainc -nocudalib --cuda-path=/nonexistent --cuda-gpu-arch=sm_90a
//     -Xclang -target-feature -Xclang +ptx80 -std=c++20 -O3 -Wno-unknown-cuda-version -S softmax.cpp -o softmax.ptx
#define DEVICE __attribute__((device)) inline
#define KERNEL extern "C" __attribute__((global, launch_bounds(256, 1))) void

namespace {

DEVICE int thread() { return __nvvm_read_ptx_sreg_tid_x(); }
DEVICE int threads() { return __nvvm_read_ptx_sreg_ntid_x(); }
DEVICE long long row() { return __nvvm_read_ptx_sreg_ctaid_x(); }

DEVICE float exp2_of(float x) {
  float y;
  asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

struct Larger {
  DEVICE float operator()(float a, float b) const { return a > b ? a : b; }
};
struct Sum {
  DEVICE float operator()(float a, float b) const { return a + b; }
};

extern __attribute__((shared)) float partial[];  // one for each warp

/// Every thread gets the result of combining all threads' values.
template <class Combine> DEVICE float over_block(float x, float neutral, Combine combine) {
  const auto over_warp = [&](float v) {
    for (int mask = 16; mask > 0; mask /= 2) v = combine(v, __nvvm_shfl_sync_bfly_f32(-1, v, mask, 31));
    return v;
  };
  x = over_warp(x);
  if (thread() % 32 == 0) partial[thread() / 32] = x;
  __syncthreads();
  x = over_warp(thread() % 32 < threads() / 32 ? partial[thread() % 32] : neutral);
  __syncthreads();
  return x;
}

constexpr float kLog2E = 1.44269504f;

}  // namespace

KERNEL softmax_forward(const float* x, float* y, int columns, float scale) {
  x += row() * columns, y += row() * columns;
  float most = -__builtin_huge_valf(), sum = 0;
  for (int c = thread(); c < columns; c += threads()) most = Larger()(most, scale * x[c]);
  most = over_block(most, -__builtin_huge_valf(), Larger());
  for (int c = thread(); c < columns; c += threads()) sum += y[c] = exp2_of((scale * x[c] - most) * kLog2E);
  sum = over_block(sum, 0, Sum());
  for (int c = thread(); c < columns; c += threads()) y[c] /= sum;
}

KERNEL softmax_backward(const float* y, const float* dy, float* dx, int columns, float scale) {
  y += row() * columns, dy += row() * columns, dx += row() * columns;
  float sum = 0;
  for (int c = thread(); c < columns; c += threads()) sum += y[c] * dy[c];
  sum = over_block(sum, 0, Sum());
  for (int c = thread(); c < columns; c += threads()) dx[c] = scale * y[c] * (dy[c] - sum);
}
