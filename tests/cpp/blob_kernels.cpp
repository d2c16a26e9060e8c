// Kernels for blob_test.cpp, as a user would write them: no header of ours.
#include <cstdint>
#include <stdexcept>

#define KERNEL extern "C" __attribute__((visibility("default"))) void

/// out[block] = a * x[block], block numbers in the order of the grid, x first.
KERNEL scale(void* const* arguments, const int64_t* grid, const int64_t* block) {
  const auto* x = static_cast<const float*>(arguments[0]);
  auto* out = static_cast<float*>(arguments[1]);
  const float a = *static_cast<const float*>(arguments[2]);
  const int64_t i = (block[2] * grid[1] + block[1]) * grid[0] + block[0];
  out[i] = a * x[i];
}

KERNEL throws(void* const*, const int64_t*, const int64_t* block) {
  if (block[0] == 3) throw std::runtime_error("block 3 is unhappy");
}
