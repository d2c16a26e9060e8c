/// @file
/// What was decided for one rotary embedding on CDNA: by the shape and the addresses alone, so results do not depend on the
/// device.
#pragma once

#include <algorithm>
#include <cstdint>

#include "jaxator/rope.h"
#include "src/ops/rope/cdna.h"

namespace jaxator {

struct RopeRocmConfig {
  bool vectors = false;  // units of 16 bytes of each half, else of one pair
  int unit_threads = 1;  // of a head
  int heads = 1;         // at once
  int rows = 1;          // at once; a block has kRopeRows times as many
  int64_t blocks = 1;
  int64_t turns = 1;  // of long heads
  int shared_bytes = 0;

  int64_t rows_per_block() const { return int64_t{rows} * cdna::kRopeRows; }
};

/// Heads * columns of a row at most: kRopeRows rows of float32 then lie within 2^31 bytes, in which kernels count.
inline constexpr int64_t kMostRopeRow = int64_t{1} << 28;

inline RopeRocmConfig pick_rocm_config(const RopeDesc& desc, bool aligned) {
  constexpr int64_t kThreads = 256;
  RopeRocmConfig config;
  const int64_t pairs = desc.columns / 2, turn = std::min<int64_t>(pairs, cdna::kRopeTurn);
  config.vectors = aligned && pairs * size_of(desc.type) % 16 == 0;
  const int64_t unit = config.vectors ? 16 / size_of(desc.type) : 1;

  // A thread for each unit of a head, then for as many heads as fit in equal rounds, then for rows: 40 heads of 8 units are two
  // rounds of 20 heads.
  const auto rounds = [](int64_t n, int64_t most) { return (n + most - 1) / most; };
  const int64_t units = (turn + unit - 1) / unit;
  const int64_t unit_threads = rounds(units, rounds(units, kThreads));
  const int64_t heads = rounds(desc.heads, rounds(desc.heads, kThreads / unit_threads));
  const int64_t most_rows =
      std::min({int64_t{64}, kThreads / (unit_threads * heads), kMostRopeRow / (desc.heads * desc.columns)});
  config.unit_threads = static_cast<int>(unit_threads), config.heads = static_cast<int>(heads);
  config.rows = static_cast<int>(std::clamp<int64_t>(rounds(desc.rows, cdna::kRopeRows), 1, most_rows));
  config.blocks = rounds(desc.rows, config.rows_per_block());
  config.turns = rounds(pairs, cdna::kRopeTurn);
  config.shared_bytes = static_cast<int>(config.rows_per_block() * (turn * 2 + 1) * int64_t{sizeof(float)});
  return config;
}

}  // namespace jaxator
