/// @file
/// Layer normalisation on x86: memory is touched once. A row is read from memory for its mean, then from L1 for its variance
/// and to be scaled; the backward pass adds two sums over dy to the same readings.
#include "src/ops/layer_norm/cpu.h"

#include <algorithm>
#include <cmath>

#include "src/tile/cpu/lanes.h"

namespace jaxator::JAXATOR_ISA {
namespace {

/// Options that a loop must not test for each vector.
template <class T_, bool weight_, bool bias_> struct Variant {
  using T = T_;
  static constexpr bool weight = weight_, bias = bias_;
};

/// Calls launch(Variant{}) for the desc's types and options.
template <class Launch> void with_variant(const LayerNormDesc& desc, Launch&& launch) {
  with_type(desc.type, [&](auto type) {
    using T = decltype(type);
    if (desc.has_weight)
      desc.has_bias ? launch(Variant<T, true, true>{}) : launch(Variant<T, true, false>{});
    else
      desc.has_bias ? launch(Variant<T, false, true>{}) : launch(Variant<T, false, false>{});
  });
}

/// What a row is scaled by: standardised x = (x - mean) * scale + shift. `shift` takes back the rounding of the float32
/// mean, which its own differences reveal: sum(x - mean) would be 0.
struct Moments {
  float mean, scale, shift;

  Moments(float mean, float differences, float squares, int64_t columns, float epsilon) : mean(mean) {
    const double n = static_cast<double>(columns), off = differences / n;
    const double inverse = 1.0 / std::sqrt(std::max(0.0, squares / n - off * off) + epsilon);
    scale = static_cast<float>(inverse);
    shift = static_cast<float>(-off * inverse);
  }
};

template <class V, int rows> void forward_rows(const LayerNormDesc& desc, const LayerNormForwardArgs& args, int64_t row,
                                               bool stream) {
  using T = typename V::T;
  const int64_t columns = desc.columns;
  const T* x = static_cast<const T*>(args.x) + row * columns;
  const float *weights = args.weight, *biases = args.bias;  // locals: what lies behind a reference is read again after each store

  Pair middle[rows], scale[rows], shift[rows];
  T* to[rows];
  for (int r = 0; r < rows; r++) {
    const T* one = x + r * columns;
    const float mean =
        sum_pairs<1, 4>(columns, [&](int64_t c, auto which, Sums<1>& sums) { sums.value[0] += load_pair(one + c, which); })
            .total(0) /
        static_cast<float>(columns);
    const Sums<2> sums = sum_pairs<2, 2>(columns, [&](int64_t c, auto which, Sums<2>& sums) {
      prefetch_pair(one + rows * columns + c);  // the next rows, before the first store of these
      const Pair d = present(load_pair(one + c, which) - splat(mean), which);
      sums.value[0] += d;
      sums.value[1] += d * d;
    });
    const Moments m(mean, sums.total(0), sums.total(1), columns, desc.epsilon);
    middle[r] = splat(m.mean), scale[r] = splat(m.scale), shift[r] = splat(m.shift);
    to[r] = static_cast<T*>(args.y) + (row + r) * columns;
  }

  write_pairs<rows>(stream, columns, to, [&](int64_t c, auto which, T* const(&y)[rows]) {
    Pair weight, bias;
    if constexpr (V::weight) weight = load_pair(weights + c, which);
    if constexpr (V::bias) bias = load_pair(biases + c, which);
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
      Pair h = (load_pair(x + r * columns + c, which) - middle[r]) * scale[r] + shift[r];
      if constexpr (V::weight) h = h * weight;
      if constexpr (V::bias) h += bias;
      store_pair(y[r], h, which);
    }
  });
}

/// What dx needs of one row, with h = standardised x, g = dy * weight and q = scale:
/// dx = q * (g - mean(g) - h * mean(g * h)) = q * g - level - h * along.
struct Projection {
  Pair middle, scale, shift, level, along;

  Projection(const Moments& m, float gradient_sum, float along_sum, int64_t columns)
      : middle(splat(m.mean)), scale(splat(m.scale)), shift(splat(m.shift)) {
    const double n = static_cast<double>(columns), q = m.scale;
    level = splat(static_cast<float>(q * gradient_sum / n));
    along = splat(static_cast<float>(q * (q * along_sum + static_cast<double>(m.shift) * gradient_sum) / n));
  }
  Projection() {}
};

template <class V>
Projection project_row(const LayerNormDesc& desc, const LayerNormBackwardArgs& args, const typename V::T* x,
                       const typename V::T* dy, int64_t ahead) {
  const int64_t columns = desc.columns;
  const auto weighted = [&](int64_t c, auto which) {
    const Pair d = load_pair(dy + c, which);
    if constexpr (V::weight) return d * load_pair(args.weight + c, which);
    return d;
  };
  const Sums<2> first = sum_pairs<2, 2>(columns, [&](int64_t c, auto which, Sums<2>& sums) {
    sums.value[0] += load_pair(x + c, which);
    sums.value[1] += weighted(c, which);
  });
  const float mean = first.total(0) / static_cast<float>(columns);
  const Sums<3> second = sum_pairs<3, 2>(columns, [&](int64_t c, auto which, Sums<3>& sums) {
    prefetch_pair(x + ahead + c);
    prefetch_pair(dy + ahead + c);
    const Pair d = present(load_pair(x + c, which) - splat(mean), which);
    sums.value[0] += d;
    sums.value[1] += d * d;
    sums.value[2] += weighted(c, which) * d;
  });
  return Projection(Moments(mean, second.total(0), second.total(1), columns, desc.epsilon), first.total(1), second.total(2),
                    columns);
}

template <class V, int rows>
void backward_rows(const LayerNormDesc& desc, const LayerNormBackwardArgs& args, int64_t row, float* dweight, float* dbias,
                   bool stream) {
  using T = typename V::T;
  const int64_t columns = desc.columns;
  const T* x = static_cast<const T*>(args.x) + row * columns;
  const T* dy = static_cast<const T*>(args.dy) + row * columns;
  const float* weights = args.weight;
  Projection p[rows];
  T* to[rows];
  for (int r = 0; r < rows; r++) {
    p[r] = project_row<V>(desc, args, x + r * columns, dy + r * columns, rows * columns);
    to[r] = static_cast<T*>(args.dx) + (row + r) * columns;
  }

  write_pairs<rows>(stream, columns, to, [&](int64_t c, auto which, T* const(&dx)[rows]) {
    Pair weight, weight_total, bias_total;
    if constexpr (V::weight) weight = load_pair(weights + c, which), weight_total = load_pair(dweight + c, which);
    if constexpr (V::bias) bias_total = load_pair(dbias + c, which);
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
      const int64_t i = r * columns + c;
      const Pair h = (load_pair(x + i, which) - p[r].middle) * p[r].scale + p[r].shift, d = load_pair(dy + i, which);
      weight_total += d * h;
      bias_total += d;
      store_pair(dx[r], (p[r].scale * (V::weight ? d * weight : d) - p[r].level) - p[r].along * h, which);
    }
    if constexpr (V::weight) store_pair(dweight + c, weight_total, which);
    if constexpr (V::bias) store_pair(dbias + c, bias_total, which);
  });
}

}  // namespace

void layer_norm_forward(const LayerNormDesc& desc, const LayerNormConfig& config, const LayerNormForwardArgs& args,
                        Executor& executor) {
  with_variant(desc, [&](auto variant) {
    using V = decltype(variant);
    const RowTasks tasks(args.y, desc.columns * size_of(desc.type), desc.rows, config.forward_rows, config.stream);
    auto body = [&](int64_t task, int64_t) {
      const RowRange range = tasks.rows_of(task);
      for_row_groups<V::weight || V::bias ? kTogether : 1>(
          range.begin, range.end, [&](int64_t row, auto rows) { forward_rows<V, rows>(desc, args, row, config.stream); });
      if (config.stream) _mm_sfence();
    };
    executor.parallel_for(tasks.count(), tasks.count(), body);
  });
}

void layer_norm_backward(const LayerNormDesc& desc, const LayerNormConfig& config, const LayerNormBackwardArgs& args,
                         Executor& executor) {
  with_variant(desc, [&](auto variant) {
    using V = decltype(variant);
    // Partial sums of one task: dweight, then dbias.
    const int64_t columns = desc.columns, tasks = config.backward_tasks, stride = columns * (V::weight + V::bias);
    float* dbias_partials = args.scratch + (V::weight ? columns : 0);
    auto body = [&](int64_t task, int64_t) {
      std::fill(args.scratch + task * stride, args.scratch + (task + 1) * stride, 0.0f);
      const int64_t end = std::min(desc.rows, (task + 1) * config.backward_rows);
      for_row_groups<V::weight || V::bias ? kTogether : 1>(task * config.backward_rows, end, [&](int64_t row, auto rows) {
        backward_rows<V, rows>(desc, args, row, args.scratch + task * stride, dbias_partials + task * stride, config.stream);
      });
      if (config.stream) _mm_sfence();
    };
    executor.parallel_for(tasks, tasks, body);

    if constexpr (V::weight) sum_partials(args.scratch, tasks, stride, columns, args.dweight, executor);
    if constexpr (V::bias) sum_partials(dbias_partials, tasks, stride, columns, args.dbias, executor);
  });
}

}  // namespace jaxator::JAXATOR_ISA
