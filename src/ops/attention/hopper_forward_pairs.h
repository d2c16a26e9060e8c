/// @file
/// What is known for each pair of query and key alone: bias, mask, segments. A thread reads what its own logits need, while the
/// products that make the logits are under way. Nothing beyond the arrays is read: indices are cut to the last query and key.
#pragma once

#include "src/ops/attention/hopper_forward_softmax.h"

namespace jaxator::hopper::attention {

/// Where the pairs of one thread and tile are: queries `query` and query + 8, keys key + 8 i and key + 8 i + 1.
struct PairPlace {
  u32 batch, head;
  int query, key;
  bool whole;  // all keys of the tile exist
};

template <class Element> struct alignas(2 * sizeof(Element)) Two {
  Element low, high;
};

/// use(x, y, two) for every two pairs side by side, with the array's elements for them. Two at once where the array allows it.
template <class Element, int N, class Use>
JAXATOR_DEVICE void each_two(float (&a)[N], const Visibility& v, const PairArray& array, const PairPlace& at, Use use) {
  const u8* row[2];
#pragma unroll
  for (int h = 0; h < 2; h++) {
    const i64 query = smaller(at.query + 8 * h, v.query_length - 1);
    row[h] = static_cast<const u8*>(array.data) +
             (at.batch * array.batch + at.head * array.head + query * array.query) * sizeof(Element);
  }
  if (array.paired && at.whole) {
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const auto* elements = reinterpret_cast<const Two<Element>*>(row[h] + static_cast<u64>(at.key) * sizeof(Element));
#pragma unroll
      for (int i = 0; i < N / 4; i++) use(a[4 * i + 2 * h], a[4 * i + 2 * h + 1], elements[4 * i]);
    }
  } else {
    const u32 key_bytes = array.key == 0 ? 0 : sizeof(Element);
    const int key = opaque(at.key), last = v.key_length - 1;  // the cut keys of all arrays together would not fit in registers
    const auto element = [&](int h, int k) {
      return *reinterpret_cast<const Element*>(row[h] + static_cast<u64>(static_cast<u32>(smaller(k, last))) * key_bytes);
    };
#pragma unroll
    for (int i = 0; i < N / 4; i++)
#pragma unroll
      for (int h = 0; h < 2; h++)
        use(a[4 * i + 2 * h], a[4 * i + 2 * h + 1], Two<Element>{element(h, key + 8 * i), element(h, key + 8 * i + 1)});
  }
}

template <int N> JAXATOR_DEVICE void add_bias(float (&a)[N], const Visibility& v, const PairPlace& at) {
  if (v.bias_type == 0) {
    each_two<float>(a, v, v.bias, at, [](float& x, float& y, Two<float> bias) { x = bias.low * kLog2E, y = bias.high * kLog2E; });
    return;
  }
  const bool is_bf16 = v.bias_type == 1;
  const auto value = [&](u16 bits) {
    const float bf16 = to_float(Bf16{bits}), f16 = to_float(F16{bits});
    return (is_bf16 ? bf16 : f16) * kLog2E;  // both computed: a branch for each element costs more
  };
  each_two<u16>(a, v, v.bias, at, [&](float& x, float& y, Two<u16> bias) { x = value(bias.low), y = value(bias.high); });
}

template <int N> JAXATOR_DEVICE void hide_masked(float (&a)[N], const Visibility& v, const PairPlace& at) {
  each_two<u8>(a, v, v.mask, at, [](float& x, float& y, Two<u8> mask) {
    if (mask.low == 0) x = minus_infinity();
    if (mask.high == 0) y = minus_infinity();
  });
}

template <int N> JAXATOR_DEVICE void hide_segments(float (&a)[N], const Visibility& v, const PairPlace& at) {
  const int* theirs = v.key_segments + static_cast<i64>(at.batch) * v.key_length;
  int mine[2];
#pragma unroll
  for (int h = 0; h < 2; h++)
    mine[h] = v.query_segments[static_cast<i64>(at.batch) * v.query_length + smaller(at.query + 8 * h, v.query_length - 1)];
  const int key = opaque(at.key);
#pragma unroll
  for (int i = 0; i < N / 4; i++)
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const int segment = theirs[smaller(key + 8 * i + e, v.key_length - 1)];
#pragma unroll
      for (int h = 0; h < 2; h++)
        if (mine[h] < 0 || mine[h] != segment) a[4 * i + 2 * h + e] = minus_infinity();
    }
}

/// What is added to scaled products, as exponents of 2: the bias, and -inf where mask or segments hide the key. For pairs beyond
/// the arrays it is anything; hide_outside follows.
template <int N> JAXATOR_DEVICE void read_pairs(float (&a)[N], const Visibility& v, const PairPlace& at, bool mixed_segments) {
#pragma unroll
  for (int i = 0; i < N; i++) a[i] = 0;
  if (v.bias.data != nullptr) add_bias(a, v, at);
  if (v.mask.data != nullptr) hide_masked(a, v, at);
  if (mixed_segments) hide_segments(a, v, at);
}

/// Products become exponents of 2. By selection: the product with a hidden key may be NaN.
template <int N> JAXATOR_DEVICE void add_pairs(float (&s)[N], const float (&a)[N], float scale) {
#pragma unroll
  for (int i = 0; i < N; i++) s[i] = a[i] == minus_infinity() ? minus_infinity() : s[i] * scale + a[i];
}

}  // namespace jaxator::hopper::attention
