#include "src/ops/matmul/rocm_config.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "src/ops/matmul/cdna.h"
#include "src/ops/matmul/problem.h"

namespace jaxator {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Of an MI300X and of an MI355X.
int compute_units(RocmArchitecture architecture) { return architecture == RocmArchitecture::gfx942 ? 304 : 256; }

struct Order {
  unsigned chunk = 1, window = 1;
};

/// How many blocks share the steps of a tile. With fewer tiles than half of the 256 compute units of an MI355X (304 of an MI300X)
/// the rest would have nothing to do; a part has 2 KiB of k at least, 16 or 32 steps, beside which what it leaves counts little.
int parts_of(const MatmulDesc& desc, int64_t tiles) {
  constexpr int64_t kUnits = 256, kLeastBytes = 2048, kMostParts = 8;
  if (desc.eight_bits() || tiles == 0) return 1;  // a tile of eight bits may have to be computed again, as a whole
  const int64_t steps = ceil_div(desc.k * desc.element_bytes(), 128) * desc.sum;
  return static_cast<int>(std::clamp<int64_t>(std::min(kUnits / tiles, steps * 128 / kLeastBytes), 1, kMostParts));
}

/// The best of a few orders, by the panels that they touch. No one order is the best for all shapes: with 256 compute units
/// chunks of 32 in windows of 8 give 0.375 panels a block for most (the least), while chunks of 64 give 0.375 to 0.56; with 304
/// compute units chunks of 38, which fill a die, give 0.38 to 0.56.
Order find_order(int64_t rows, int64_t columns, int units) {
  const auto of_die = static_cast<unsigned>(units) / cdna::kDies;
  Order best;
  double least = 3;
  for (unsigned chunk : {of_die, 32u, 16u, 64u, 8u, 1u})
    for (unsigned window : {8u, 4u, 16u, 6u, 2u, 1u}) {
      const double panels = matmul_panels(rows, columns, chunk, window, units);
      if (panels < least - 1e-9) least = panels, best = {chunk, window};
    }
  return best;
}

/// Remembered for each grid of tiles: finding it takes about a millisecond.
Order order_of(int64_t rows, int64_t columns, int units) {
  if (rows * columns <= cdna::kDies) return {};
  static std::mutex mutex;
  static std::map<std::tuple<int64_t, int64_t, int>, Order> known;
  std::lock_guard lock(mutex);
  const auto [at, added] = known.try_emplace({rows, columns, units});
  if (added) at->second = find_order(rows, columns, units);
  return at->second;
}

}  // namespace

double matmul_panels(int64_t tile_rows, int64_t tile_columns, unsigned chunk, unsigned window, int units) {
  // Four turns of all compute units show what an order does.
  const int64_t tiles = tile_rows * tile_columns, counted = std::min<int64_t>(tiles, int64_t{4} * units);
  std::vector<int64_t> row_seen(static_cast<size_t>(tile_rows) * cdna::kDies, -1);
  std::vector<int64_t> column_seen(static_cast<size_t>(tile_columns) * cdna::kDies, -1);
  int64_t panels = 0;
  for (int64_t block = 0; block < counted; block++) {
    const int64_t turn = block / units, die = block % cdna::kDies;
    const cdna::MatmulTile tile = cdna::matmul_tile_of(static_cast<unsigned>(block), static_cast<unsigned>(tile_rows),
                                                       static_cast<unsigned>(tile_columns), chunk, window);
    int64_t& row = row_seen[static_cast<size_t>(tile.row * cdna::kDies + die)];
    int64_t& column = column_seen[static_cast<size_t>(tile.column * cdna::kDies + die)];
    panels += (row != turn) + (column != turn);
    row = column = turn;
  }
  return counted == 0 ? 0 : static_cast<double>(panels) / static_cast<double>(counted);
}

std::string matmul_rocm_loose_reason(const MatmulDesc& desc) {
  const auto refused = [&](const char* name, int64_t row) -> std::string {
    const int64_t bytes = row * desc.element_bytes();
    const std::string text = std::string(name) + "'s rows have " + std::to_string(bytes) + " bytes: ";
    if (bytes % 16 != 0) return text + "no multiple of 16";
    if (bytes > cdna::kMatmulMostRowBytes) return text + "more than " + std::to_string(cdna::kMatmulMostRowBytes);
    return "";
  };
  if (desc.k == 0) return "";
  if (desc.eight_bits() && (desc.transpose_a || !desc.transpose_b))
    return "eight bits need k contiguous in both operands: a not transposed, b transposed";
  if (std::string reason = refused("a", desc.transpose_a ? desc.m : desc.k); !reason.empty()) return reason;
  return refused("b", desc.transpose_b ? desc.k : desc.n);
}

int64_t matmul_partials_bytes(const MatmulDesc& desc, const MatmulRocmConfig& config) {
  if (config.parts == 1) return 0;
  return config.parts * desc.batch * config.tile_rows * config.tile_columns * cdna::kMatmulTile * cdna::kMatmulTile * 4;
}

MatmulRocmConfig pick_rocm_config(const MatmulDesc& desc, RocmArchitecture architecture) {
  MatmulRocmConfig config;
  config.loose = !matmul_rocm_loose_reason(desc).empty();
  config.tile_rows = ceil_div(desc.m, cdna::kMatmulTile), config.tile_columns = ceil_div(desc.n, cdna::kMatmulTile);
  const Order order = order_of(config.tile_rows, config.tile_columns, compute_units(architecture));
  if (!config.loose) config.parts = parts_of(desc, config.tile_rows * config.tile_columns * desc.batch);
  config.chunk = order.chunk, config.window = order.window;
  return config;
}

}  // namespace jaxator
