/// @file
/// Keyed randomness that depends on the element and on nothing else: not on shards, devices, tiles or the order of evaluation.
/// Philox4x32-10: J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#pragma once

#include <stdint.h>

namespace jaxator::numeric {

/// The two words of a threefry key's data.
struct Key {
  uint32_t word[2];
};

struct RandomWords {
  uint32_t word[4];
};

/// 128 random bits for a counter.
constexpr RandomWords philox4x32_10(RandomWords counter, Key key) {
  RandomWords c = counter;
  for (int round = 0; round < 10; round++) {
    const uint64_t first = uint64_t{0xD2511F53u} * c.word[0], third = uint64_t{0xCD9E8D57u} * c.word[2];
    c = {{static_cast<uint32_t>(third >> 32) ^ c.word[1] ^ key.word[0], static_cast<uint32_t>(third),
          static_cast<uint32_t>(first >> 32) ^ c.word[3] ^ key.word[1], static_cast<uint32_t>(first)}};
    key.word[0] += 0x9E3779B9u;  // golden ratio
    key.word[1] += 0xBB67AE85u;  // sqrt(3) - 1
  }
  return c;
}

/// What a draw is for: different uses of one key and one element are independent. The numbers are part of the results, so they
/// never change. The operands are those of Y = X W; both copies of a dual cast share their element's draw.
enum class Stream : uint32_t {
  dropout = 0,
  round_x = 1,
  round_w = 2,
  round_dy = 3,
  hadamard_signs = 4,
};

/// The draw of an element: `bits` random bits for its row-major index in the global logical array. It is piece index % (128 /
/// bits), little end first, of the 128 bits at the counter below.
template <int bits> constexpr uint32_t draw(Key key, Stream stream, uint64_t index) {
  static_assert(bits >= 1 && bits <= 32 && 32 % bits == 0, "a piece lies in one word");
  constexpr uint32_t pieces = 128 / bits;
  const uint64_t block = index / pieces;
  const RandomWords words =
      philox4x32_10({{static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), static_cast<uint32_t>(stream), 0}}, key);
  const uint32_t offset = static_cast<uint32_t>(index % pieces) * bits, word = words.word[offset / 32] >> offset % 32;
  return bits == 32 ? word : word & ((uint32_t{1} << bits % 32) - 1);
}

}  // namespace jaxator::numeric
