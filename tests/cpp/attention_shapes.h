/// @file
/// Shapes of the attention tests. `kAttentionShapes` cycle through the product of all options; the others are tested plain.
#pragma once

#include <cstdint>

namespace jaxator::testing {

struct AttentionShape {
  int64_t batch, queries, keys, heads, kv_heads, head_size, value_size;
};

/// Odd, prime and non-multiple sizes, more queries than keys and fewer, every kind of head sharing, V != H.
inline constexpr AttentionShape kAttentionShapes[] = {
    {2, 37, 53, 4, 2, 16, 16}, {1, 71, 29, 3, 1, 7, 20}, {2, 19, 83, 2, 2, 33, 5},
    {1, 45, 45, 6, 2, 8, 40},  {3, 5, 17, 5, 5, 12, 3},  {2, 1, 70, 8, 2, 24, 24},
};

/// Zeros and ones.
inline constexpr AttentionShape kAttentionEdgeShapes[] = {
    {0, 3, 4, 2, 1, 8, 8}, {2, 0, 4, 2, 1, 8, 8}, {2, 3, 0, 2, 1, 8, 8},   {2, 3, 4, 0, 0, 8, 8},
    {1, 1, 1, 1, 1, 1, 1}, {1, 2, 1, 1, 1, 1, 9}, {1, 1, 130, 1, 1, 3, 1},
};

/// Head sizes of models and awkward ones; sequences over several key tiles and row runs.
inline constexpr AttentionShape kAttentionHeadShapes[] = {
    {1, 67, 150, 2, 1, 64, 64},  {1, 40, 140, 2, 2, 80, 80},  {1, 65, 131, 2, 1, 96, 96},  {1, 33, 129, 4, 1, 128, 128},
    {1, 50, 66, 2, 1, 192, 128}, {1, 34, 40, 1, 1, 256, 256}, {1, 33, 41, 1, 1, 255, 253}, {1, 31, 35, 1, 1, 1, 256},
    {1, 16, 24, 2, 1, 127, 1},   {1, 300, 290, 3, 1, 32, 48}, {2, 600, 20, 2, 2, 16, 16},  {1, 7, 700, 10, 2, 20, 36},
};

}  // namespace jaxator::testing
