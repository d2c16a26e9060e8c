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

template <class V> void forward_row(const LayerNormDesc& desc, const LayerNormForwardArgs& args, int64_t row, bool stream) {
  using T = typename V::T;
  const int64_t columns = desc.columns;
  const T* x = static_cast<const T*>(args.x) + row * columns;
  T* y = static_cast<T*>(args.y) + row * columns;

  const float mean = sum_pairs<1>(columns, [&](int64_t c, auto which, Sums<1>& sums) {
                       prefetch_pair(x + columns + c);  // the next row, before this one's stores
                       sums.value[0] += load_pair(x + c, which);
                     }).total(0) / static_cast<float>(columns);
  const Sums<2> sums = sum_pairs<2>(columns, [&](int64_t c, auto which, Sums<2>& sums) {
    const Pair d = present(load_pair(x + c, which) - splat(mean), which);
    sums.value[0] += d;
    sums.value[1] += d * d;
  });

  const Moments m(mean, sums.total(0), sums.total(1), columns, desc.epsilon);
  const Pair middle = splat(m.mean), scale = splat(m.scale), shift = splat(m.shift);
  write_pairs(stream, columns, [&](int64_t c, auto which, T* y) {
    Pair h = (load_pair(x + c, which) - middle) * scale + shift;
    if constexpr (V::weight) h = h * load_pair(args.weight + c, which);
    if constexpr (V::bias) h += load_pair(args.bias + c, which);
    store_pair(y, h, which);
  }, y);
}

template <class V>
void backward_row(const LayerNormDesc& desc, const LayerNormBackwardArgs& args, int64_t row, float* dweight, float* dbias, bool stream) {
  using T = typename V::T;
  const int64_t columns = desc.columns;
  const T* x = static_cast<const T*>(args.x) + row * columns;
  const T* dy = static_cast<const T*>(args.dy) + row * columns;
  T* dx = static_cast<T*>(args.dx) + row * columns;

  // With h = standardised x, g = dy * weight and r = scale:  dx = r * (g - mean(g) - h * mean(g * h)).
  const auto weighted = [&](int64_t c, auto which, Pair d) {
    if constexpr (V::weight) return d * load_pair(args.weight + c, which);
    return d;
  };
  const Sums<2> first = sum_pairs<2>(columns, [&](int64_t c, auto which, Sums<2>& sums) {
    prefetch_pair(x + columns + c);
    prefetch_pair(dy + columns + c);
    sums.value[0] += load_pair(x + c, which);
    sums.value[1] += weighted(c, which, load_pair(dy + c, which));
  });
  const float mean = first.total(0) / static_cast<float>(columns), gradient_sum = first.total(1);
  const Sums<3> second = sum_pairs<3>(columns, [&](int64_t c, auto which, Sums<3>& sums) {
    const Pair d = present(load_pair(x + c, which) - splat(mean), which);
    sums.value[0] += d;
    sums.value[1] += d * d;
    sums.value[2] += weighted(c, which, load_pair(dy + c, which)) * d;
  });

  const Moments m(mean, second.total(0), second.total(1), columns, desc.epsilon);
  const double n = static_cast<double>(columns), r = m.scale;
  const double projection = (r * second.total(2) + static_cast<double>(m.shift) * gradient_sum) / n;  // mean(g * h)
  const Pair middle = splat(m.mean), scale = splat(m.scale), shift = splat(m.shift);
  const Pair along = splat(static_cast<float>(r * projection)), level = splat(static_cast<float>(r * gradient_sum / n));

  write_pairs(stream, columns, [&](int64_t c, auto which, T* dx) {
    const Pair h = (load_pair(x + c, which) - middle) * scale + shift, d = load_pair(dy + c, which);
    if constexpr (V::weight) store_pair(dweight + c, load_pair(dweight + c, which) + d * h, which);
    if constexpr (V::bias) store_pair(dbias + c, load_pair(dbias + c, which) + d, which);
    store_pair(dx, (scale * weighted(c, which, d) - level) - along * h, which);
  }, dx);
}

}  // namespace

void layer_norm_forward(const LayerNormDesc& desc, const LayerNormConfig& config, const LayerNormForwardArgs& args, Executor& executor) {
  with_variant(desc, [&](auto variant) {
    using V = decltype(variant);
    const int64_t tasks = (desc.rows + config.forward_rows - 1) / config.forward_rows;
    auto body = [&](int64_t task, int64_t) {
      const int64_t end = std::min(desc.rows, (task + 1) * config.forward_rows);
      for (int64_t row = task * config.forward_rows; row < end; row++) forward_row<V>(desc, args, row, config.stream);
      if (config.stream) _mm_sfence();
    };
    executor.parallel_for(tasks, tasks, body);
  });
}

void layer_norm_backward(const LayerNormDesc& desc, const LayerNormConfig& config, const LayerNormBackwardArgs& args, Executor& executor) {
  with_variant(desc, [&](auto variant) {
    using V = decltype(variant);
    // Partial sums of one task: dweight, then dbias.
    const int64_t columns = desc.columns, tasks = config.backward_tasks, stride = columns * (V::weight + V::bias);
    float* dbias_partials = args.scratch + (V::weight ? columns : 0);
    auto body = [&](int64_t task, int64_t) {
      std::fill(args.scratch + task * stride, args.scratch + (task + 1) * stride, 0.0f);
      const int64_t end = std::min(desc.rows, (task + 1) * config.backward_rows);
      for (int64_t row = task * config.backward_rows; row < end; row++)
        backward_row<V>(desc, args, row, args.scratch + task * stride, dbias_partials + task * stride, config.stream);
      if (config.stream) _mm_sfence();
    };
    executor.parallel_for(tasks, tasks, body);

    if constexpr (V::weight) sum_partials(args.scratch, tasks, stride, columns, args.dweight, executor);
    if constexpr (V::bias) sum_partials(dbias_partials, tasks, stride, columns, args.dbias, executor);
  });
}

}  // namespace jaxator::JAXATOR_ISA
