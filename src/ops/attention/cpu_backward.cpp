/// @file
/// How the backward pass is dealt to tasks, and what happens between them.
#include "src/ops/attention/backward_task.h"
#include "src/ops/attention/cpu.h"

namespace jaxator::JAXATOR_ISA {
namespace {

/// Everything that the phases share.
template <class R> struct BackwardPass {
  using T = typename R::T;
  using Task = BackwardTask<R>;
  const AttentionDesc& desc;
  const AttentionConfig& config;
  const AttentionBackwardArgs& args;
  const Operands operands;
  const PackedSizes sizes;
  const int64_t slots, slot_bytes, sum_floats;

  BackwardPass(const AttentionDesc& d, const AttentionConfig& c, const AttentionBackwardArgs& a, int64_t slot_count)
      : desc(d),
        config(c),
        args(a),
        operands(operands_of(d, a)),
        sizes(d, c),
        slots(backward_slots(c, slot_count)),
        slot_bytes(backward_slot_bytes(d, c)),
        sum_floats(sums_floats(d, c)) {}

  /// Sums of one pair and part, where they outlive their task.
  float* kept_sums(int64_t index) const { return reinterpret_cast<float*>(slot_scratch(slots)) + index * sum_floats; }
  Task task_at(int64_t pair, Carver& carver) const {
    return {desc, config, args, HeadGroup(desc, operands, pair), sizes, carve_backward(carver, desc, config)};
  }
  char* slot_scratch(int64_t slot) const { return static_cast<char*>(args.scratch) + slot * slot_bytes; }
  bool bias_is_full() const {
    const auto& shape = desc.bias_shape;
    return shape[0] == desc.batch && shape[1] == desc.heads && shape[2] == desc.query_length && shape[3] == desc.key_length;
  }

  /// Calls body(first, end) for the part's runs of rows.
  template <class Body> void for_runs(int64_t part, Body&& body) const {
    const int64_t rows = rows_of(desc), runs = ceil_div(rows, config.backward_rows);
    for (int64_t run = 0; run < runs; run++)
      if (config.part_of(run, runs) == part) body(run * config.backward_rows, std::min(rows, (run + 1) * config.backward_rows));
  }

  /// Keys that the part's rows may visit: what its sums hold.
  KeySpan part_keys(const HeadGroup& head, int64_t part) const {
    KeySpan all{std::numeric_limits<int64_t>::max(), 0};
    for_runs(part, [&](int64_t first, int64_t end) {
      const int64_t last_query = std::min((end - 1) / head.group, head.limits.queries - 1);
      if (first / head.group > last_query) return;
      const KeySpan keys = keys_of_tile(desc, head.limits, first / head.group, last_query);
      if (!keys.empty()) all = {std::min(all.begin, keys.begin), std::max(all.end, keys.end)};
    });
    return all.empty() ? KeySpan{0, 0} : all;
  }

  void run_part(int64_t pair, int64_t part, int64_t slot) const {
    Carver carver(slot_scratch(slot));
    const Task task = task_at(pair, carver);
    const KeySpan keys = part_keys(task.head, part);
    float* dk = config.parts == 1 ? carver.take<float>(sum_floats) : kept_sums(pair * config.parts + part);
    float* dv = dk + (keys.end - keys.begin) * sizes.head_columns;
    // Sums are zeroed as far as the rows come, just before they are added to: all of them at the start would be written to
    // memory and read again, 1 % of the backward pass on Zen 5.
    int64_t ready = keys.begin;
    const auto zero_until = [&](int64_t end) {
      if (end <= ready) return;
      std::fill_n(dk + (ready - keys.begin) * sizes.head_columns, (end - ready) * sizes.head_columns, 0.0f);
      std::fill_n(dv + (ready - keys.begin) * sizes.value_columns, (end - ready) * sizes.value_columns, 0.0f);
      ready = end;
    };
    const bool bias = desc.bias_gradient && bias_is_full();
    for_runs(part, [&](int64_t first, int64_t end) {
      task.sweep(first, end, keys, [&](int64_t g, int64_t from, int64_t to) {
        zero_until(task.s.key_tile->begin + to);
        task.accumulate(g, from, to, keys.begin, dk, dv);
        if (bias) task.add_bias_gradient(g, from, to);
      });
      task.finish_rows(first, end);
    });
    zero_until(keys.end);
    if (config.parts == 1) {
      const Sums sums{keys, dk, dv};
      write_keys(task.head, &sums, 1, 0, desc.key_length);
    }
  }

  struct Sums {
    KeySpan keys;
    const float *dk, *dv;
  };

  void reduce(int64_t pair, int64_t begin, int64_t end) const {
    const HeadGroup head(desc, operands, pair);
    Sums sums[kMostParts];
    for (int64_t part = 0; part < config.parts; part++) {
      const KeySpan keys = part_keys(head, part);
      const float* dk = kept_sums(pair * config.parts + part);
      sums[part] = {keys, dk, dk + (keys.end - keys.begin) * sizes.head_columns};
    }
    write_keys(head, sums, config.parts, begin, end);
  }

  /// dk and dv of keys [begin, end): the parts' sums in order, scaled and rounded; zeros where the key is padding.
  void write_keys(const HeadGroup& head, const Sums* sums, int64_t parts, int64_t begin, int64_t end) const {
    for (int64_t j = begin; j < end; j++) {
      const bool padding = j >= head.limits.keys ||
                           (operands.key_segments != nullptr && operands.key_segments[head.batch * desc.key_length + j] < 0);
      const float *dk[kMostParts], *dv[kMostParts];
      int64_t holders = 0;
      for (int64_t part = 0; part < parts && !padding; part++) {
        const int64_t at = j - sums[part].keys.begin;
        if (at < 0 || j >= sums[part].keys.end) continue;
        dk[holders] = sums[part].dk + at / kTileRows * kTileRows * sizes.head_columns + at % kTileRows * kTileColumns;
        dv[holders++] = sums[part].dv + at / kTileRows * kTileRows * sizes.value_columns + at % kTileRows * kTileColumns;
      }
      const int64_t at = head.key_index(j);
      const auto write = [&](auto* k, auto* v) {
        write_row(dk, holders, desc.head_size, desc.scale, k + at * desc.head_size);
        write_row(dv, holders, desc.value_size, 1.0f, v + at * desc.value_size);
      };
      if (desc.kv_gradients_f32)
        write(static_cast<float*>(args.dk), static_cast<float*>(args.dv));
      else
        write(static_cast<T*>(args.dk), static_cast<T*>(args.dv));
    }
  }

  template <class Out> static void write_row(const float* const* rows, int64_t count, int64_t elements, float scale, Out* to) {
    for (int64_t e = 0; e < elements; e += kLanes) {
      const int64_t at = e / kTileColumns * Task::kTileFloats + e % kTileColumns;
      f32v total{};
      for (int64_t i = 0; i < count; i++) total += load<f32v>(rows[i] + at);
      total *= splat(scale);
      if (elements - e >= kLanes)
        store_f32(to + e, total);
      else
        store_f32(to + e, total, static_cast<int>(elements - e));
    }
  }

  /// dbias summed over broadcast dimensions: a pass of its own whose tasks each own a piece of dbias and compute dS again for
  /// all that adds to it (2 of the 5 products). No partial sums, so no memory, and any number of threads.
  void run_bias_piece(int64_t piece, int64_t slot) const {
    const int64_t group = heads_per_group(desc), queries = bias_queries();
    const auto own = [&piece](bool indexed, int64_t size, int64_t step) {  // takes one digit off the piece's index
      if (!indexed) return KeySpan{0, size};
      const int64_t pieces = ceil_div(size, step), at = piece % pieces;
      piece /= pieces;
      return KeySpan{at * step, std::min(size, (at + 1) * step)};
    };
    const KeySpan keys = own(desc.bias_shape[3] != 1, round_up(desc.key_length, kKeyGranule), bias_keys());
    const KeySpan query = own(desc.bias_shape[2] != 1, desc.query_length, queries);
    const KeySpan heads = own(desc.bias_shape[1] != 1, desc.kv_heads, 1);
    const KeySpan batches = own(desc.bias_shape[0] != 1, desc.batch, 1);
    for (int64_t b = batches.begin; b < batches.end; b++)
      for (int64_t kv = heads.begin; kv < heads.end; kv++) {
        Carver carver(slot_scratch(slot));
        const Task task = task_at(b * desc.kv_heads + kv, carver);
        for (int64_t row = query.begin * group; row < query.end * group; row += config.backward_rows)
          task.sweep(row, std::min(query.end * group, row + config.backward_rows), keys,
                     [&](int64_t g, int64_t from, int64_t to) { task.add_bias_gradient(g, from, to); });
      }
  }

  /// Queries of one piece; all heads of a group are in it, so that no two pieces share an element of dbias.
  int64_t bias_queries() const { return std::max<int64_t>(1, config.backward_rows / heads_per_group(desc)); }
  int64_t bias_row_pieces() const {
    const auto& shape = desc.bias_shape;
    return (shape[2] == 1 ? 1 : ceil_div(desc.query_length, bias_queries())) * (shape[1] == 1 ? 1 : desc.kv_heads) *
           (shape[0] == 1 ? 1 : desc.batch);
  }
  /// Keys are cut only as far as it takes to make kMostParts pieces: every cut packs the rows once more.
  int64_t bias_keys() const {
    return round_up(std::max<int64_t>(1, ceil_div(desc.key_length, ceil_div(kMostParts, bias_row_pieces()))),
                    config.backward_key_tile);
  }
  int64_t bias_pieces() const {
    return bias_row_pieces() * (desc.bias_shape[3] == 1 ? 1 : ceil_div(desc.key_length, bias_keys()));
  }

  void run(Executor& executor) const {
    const int64_t pairs = desc.batch * desc.kv_heads;
    auto parts = [&](int64_t task, int64_t slot) { run_part(task / config.parts, task % config.parts, slot); };
    executor.parallel_for(pairs * config.parts, slots, parts);
    if (config.parts > 1) {
      constexpr int64_t kKeys = 256;
      const int64_t pieces = ceil_div(desc.key_length, kKeys);
      auto body = [&](int64_t task, int64_t) {
        const int64_t begin = task % pieces * kKeys;
        reduce(task / pieces, begin, std::min(desc.key_length, begin + kKeys));
      };
      executor.parallel_for(pairs * pieces, slots, body);
    }
    if (desc.bias_gradient && !bias_is_full()) {
      auto bias = [&](int64_t task, int64_t slot) { run_bias_piece(task, slot); };
      executor.parallel_for(bias_pieces(), slots, bias);
    }
  }
};

}  // namespace

void attention_backward(const AttentionDesc& desc, const AttentionConfig& config, const AttentionBackwardArgs& args,
                        int64_t slots, Executor& executor) {
  with_route(desc, config, [&](auto route) { BackwardPass<decltype(route)>(desc, config, args, slots).run(executor); });
}

}  // namespace jaxator::JAXATOR_ISA
