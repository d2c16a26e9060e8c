/// @file
/// Matrix products on x86: a task is a block of the result. It packs its rows of a and columns of b, some of k at a time, into
/// the forms that register tiles read in order, so that every layout of the operands runs the same loops.
#include "src/ops/matmul/cpu.h"

#include "src/ops/matmul/cpu_epilogue.h"
#include "src/ops/matmul/problem.h"
#include "src/tile/cpu/lanes.h"
#include "src/tile/cpu/pack.h"

namespace jaxator::JAXATOR_ISA {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

template <class Dot, class T> struct Task {
  const MatmulDesc& desc;
  const MatmulConfig& config;
  const MatmulArgs& args;
  uint32_t *packed_a, *packed_b;
  float* sums;

  Task(const MatmulDesc& d, const MatmulConfig& c, const MatmulArgs& a, int64_t slot) : desc(d), config(c), args(a) {
    packed_a = reinterpret_cast<uint32_t*>(static_cast<char*>(a.scratch) + slot * c.slot_bytes());
    packed_b = packed_a + c.words_a();
    sums = reinterpret_cast<float*>(packed_b + c.words_b());
  }

  void run(int64_t task) const {
    const int64_t blocks_m = ceil_div(desc.m, config.rows), blocks_n = ceil_div(desc.n, config.columns);
    // Neighbouring tasks share columns of b, which are then in the cache that the cores share.
    const int64_t row = task % blocks_m * config.rows, column = task / blocks_m % blocks_n * config.columns;
    const int64_t matrix = task / blocks_m / blocks_n;
    const Result<T> result(desc, args, matrix);
    const int64_t rows = std::min(config.rows, desc.m - row), columns = std::min(config.columns, desc.n - column);
    if (desc.k == 0) return add(result, row, rows, column, columns, 0, true, true);
    for (int64_t term = 0; term < desc.sum; term++)
      for (int64_t k = 0; k < desc.k; k += config.depth) {
        const int64_t depth = std::min(config.depth, desc.k - k);
        pack_a(matrix_a(desc, matrix, term), row, rows, k, depth);
        pack_b(matrix_b(desc, matrix, term), column, columns, k, depth);
        add(result, row, rows, column, columns, depth, term == 0 && k == 0, term + 1 == desc.sum && k + depth == desc.k);
      }
  }

  void pack_a(int64_t matrix, int64_t row, int64_t rows, int64_t k, int64_t depth) const {
    const T* a = static_cast<const T*>(args.a) + matrix * desc.m * desc.k;
    if (!desc.transpose_a)
      return pack_rows<Dot, T>([&](int64_t r) { return r < rows ? a + (row + r) * desc.k + k : nullptr; }, rows, depth, packed_a);
    pack_panels<Dot, T, kTileRows>([&](int64_t e) { return e < depth ? a + (k + e) * desc.m + row : nullptr; },
                                   round_up(depth, 2 * Dot::group), rows, round_up(rows, kLanes), panel_a(depth), packed_a);
  }

  void pack_b(int64_t matrix, int64_t column, int64_t columns, int64_t k, int64_t depth) const {
    const T* b = static_cast<const T*>(args.b) + matrix * desc.k * desc.n;
    if (!desc.transpose_b)
      return pack_panels<Dot, T, kTileColumns>([&](int64_t e) { return e < depth ? b + (k + e) * desc.n + column : nullptr; },
                                               round_up(depth, Dot::group), columns, round_up(columns, kTileColumns),
                                               panel_b(depth), packed_b);
    for (int64_t c = 0; c < columns; c += kTileColumns) {
      const T* row[kTileColumns];
      for (int i = 0; i < kTileColumns; i++) row[i] = c + i < columns ? b + (column + c + i) * desc.k + k : nullptr;
      pack_transposed<Dot>(row, depth, packed_b + c / kTileColumns * panel_b(depth));
    }
  }

  // Words of one register tile's operand.
  int64_t panel_a(int64_t depth) const {
    return (desc.transpose_a ? round_up(depth, 2 * Dot::group) / Dot::group : round_up(ceil_div(depth, Dot::group), kLanes)) *
           kTileRows;
  }
  static int64_t panel_b(int64_t depth) { return ceil_div(depth, Dot::group) * kTileColumns; }

  /// The packed operands' product, added to what is there unless it is the first; the last is finished.
  void add(const Result<T>& result, int64_t row, int64_t rows, int64_t column, int64_t columns, int64_t depth, bool first,
           bool last) const {
    const int64_t words = ceil_div(depth, Dot::group), panels_n = ceil_div(columns, kTileColumns);
    for (int64_t c = 0; c < panels_n; c++)
      for (int64_t r = 0; r * kTileRows < rows; r++) {
        float* sum = sums + (c * ceil_div(config.rows, kTileRows) + r) * kTileRows * kTileColumns;
        const uint32_t *a = packed_a + r * panel_a(depth), *b = packed_b + c * panel_b(depth);
        Tile tile;
        first ? clear(tile) : load_tile(tile, sum);
        desc.transpose_a ? dot_columns<Dot>(tile, words, a, b) : dot_rows<Dot>(tile, words, a, b);
        if (last)
          result.finish(tile, row + r * kTileRows, column + c * kTileColumns);
        else
          store_tile(tile, sum);
      }
  }
};

/// Calls launch(Dot{}, T{}).
template <class Launch> void with_route(const MatmulDesc& desc, [[maybe_unused]] const MatmulConfig& config, Launch&& launch) {
#if defined(__AVX512BF16__)
  if (config.bf16_dot) return launch(DotBf16{}, Bf16{});
#endif
  with_type(desc.type, [&](auto type) { launch(DotF32{}, type); });
}

}  // namespace

void matmul(const MatmulDesc& desc, const MatmulConfig& config, const MatmulArgs& args, int64_t slots, Executor& executor) {
  with_route(desc, config, [&](auto dot, auto type) {
    auto body = [&](int64_t task, int64_t slot) { Task<decltype(dot), decltype(type)>(desc, config, args, slot).run(task); };
    executor.parallel_for(matmul_tasks(desc, config), slots, body);
  });
}

}  // namespace jaxator::JAXATOR_ISA
