/// @file
/// An attention problem in arrays, with NaN wherever nothing may be read, its reference values and their bounds.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "jaxator/attention.h"
#include "src/ops/attention/reference.h"
#include "tests/cpp/attention_shapes.h"
#include "tests/cpp/testing.h"

namespace jaxator::testing {

inline AttentionDesc attention_desc(DType type, AttentionShape shape) {
  AttentionDesc d;
  d.type = type;
  d.batch = shape.batch;
  d.query_length = shape.queries;
  d.key_length = shape.keys;
  d.heads = shape.heads;
  d.kv_heads = shape.kv_heads;
  d.head_size = shape.head_size;
  d.value_size = shape.value_size;
  d.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(shape.head_size)));
  return d;
}

inline int64_t elements(const int64_t (&shape)[4]) { return shape[0] * shape[1] * shape[2] * shape[3]; }
inline void set_shape(int64_t (&shape)[4], const AttentionDesc& d, unsigned indexed) {
  const int64_t full[4] = {d.batch, d.heads, d.query_length, d.key_length};
  for (int i = 0; i < 4; i++) shape[i] = indexed >> (3 - i) & 1 ? full[i] : 1;
}

inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct AttentionProblem {
  AttentionDesc desc;
  TestArray q, k, v, bias, dout;
  std::vector<float> dlse;
  reference::AttentionInputs in;

  AttentionProblem(const AttentionDesc& d, uint64_t seed, bool has_dlse = true)
      : AttentionProblem(d, std::mt19937_64(seed), has_dlse) {}

  AttentionProblem(const AttentionDesc& d, std::mt19937_64 random, bool has_dlse)
      : desc(d),
        q(TestArray::normal(d.type, d.batch * d.query_length * d.heads * d.head_size, random)),
        k(TestArray::normal(d.type, d.batch * d.key_length * d.kv_heads * d.head_size, random)),
        v(TestArray::normal(d.type, d.batch * d.key_length * d.kv_heads * d.value_size, random)),
        bias(TestArray::normal(d.bias_type, d.has_bias ? elements(d.bias_shape) : 0, random)),
        dout(TestArray::normal(d.type, d.batch * d.query_length * d.heads * d.value_size, random)) {
    std::uniform_int_distribution<int> draw(0, 1 << 20);
    if (has_dlse)
      for (int64_t i = 0; i < d.batch * d.query_length * d.heads; i++) dlse.push_back(float(draw(random) % 17 - 8) / 4);
    if (d.has_mask)
      for (int64_t i = 0; i < elements(d.mask_shape); i++)
        in.mask.push_back(draw(random) % 3 ? uint8_t(1 + draw(random) % 255) : 0);
    for (int64_t b = 0; b < d.batch; b++) {  // zero, full, over-long and negative lengths among them
      in.query_lengths.push_back(b % 3 == 1 ? draw(random) % 2 * -3 : draw(random) % (d.query_length + 2));
      in.key_lengths.push_back(b % 3 == 2 ? 0 : draw(random) % (d.key_length + 2));
    }
    fill_segments(in.query_segment_ids, d.query_length, random);
    fill_segments(in.key_segment_ids, d.key_length, random);
    for (int64_t i = 0; d.has_bias && i < bias.size(); i++)
      if (draw(random) % 23 == 0) bias.set(i, -std::numeric_limits<float>::infinity());
    poison();
    in.q = q.values(), in.k = k.values(), in.v = v.values(), in.bias = bias.values();
  }

  /// Runs of ids with padding between and after.
  void fill_segments(std::vector<int32_t>& ids, int64_t length, std::mt19937_64& random) const {
    for (int64_t b = 0; b < desc.batch; b++) {
      int32_t id = 0;
      for (int64_t i = 0; i < length; i++) {
        if (random() % 9 == 0) id++;
        ids.push_back(i + 3 >= length || random() % 11 == 0 ? -1 - int32_t(random() % 3) : id);
      }
    }
  }

  bool query_is_padding(int64_t b, int64_t t) const {
    return (desc.has_query_lengths && t >= in.query_lengths[b]) ||
           (desc.has_segment_ids && in.query_segment_ids[b * desc.query_length + t] < 0);
  }
  bool key_is_padding(int64_t b, int64_t s) const {
    return (desc.has_key_lengths && s >= in.key_lengths[b]) ||
           (desc.has_segment_ids && in.key_segment_ids[b * desc.key_length + s] < 0);
  }

  static void poison_row(TestArray& array, int64_t row, int64_t size) {
    for (int64_t i = 0; i < size; i++) array.set(row * size + i, kNaN);
  }

  void poison() {
    const AttentionDesc& d = desc;
    for (int64_t b = 0; b < d.batch; b++) {
      for (int64_t t = 0; t < d.query_length; t++)
        if (query_is_padding(b, t)) {
          poison_row(q, b * d.query_length + t, d.heads * d.head_size);
          poison_row(dout, b * d.query_length + t, d.heads * d.value_size);
        }
      for (int64_t s = 0; s < d.key_length; s++)
        if (key_is_padding(b, s)) {
          poison_row(k, b * d.key_length + s, d.kv_heads * d.head_size);
          poison_row(v, b * d.key_length + s, d.kv_heads * d.value_size);
        }
      if (!d.has_bias || d.bias_shape[0] != d.batch || d.bias_shape[2] != d.query_length || d.bias_shape[3] != d.key_length)
        continue;
      for (int64_t n = 0; n < d.bias_shape[1]; n++)
        for (int64_t t = 0; t < d.query_length; t++)
          for (int64_t s = 0; s < d.key_length; s++)
            if (query_is_padding(b, t) || key_is_padding(b, s))
              bias.set(reference::attention_element(d.bias_shape, b, n, t, s), kNaN);
    }
  }

  /// Cotangents of rows that see nothing become NaN and inf: their gradients are zeros all the same.
  void poison_empty_rows(const std::vector<double>& lse) {
    for (size_t row = 0; row < lse.size(); row++)
      if (lse[row] == -std::numeric_limits<double>::infinity()) {
        for (int64_t i = 0; i < desc.value_size; i++)
          dout.set(row * desc.value_size + i, i % 2 ? std::numeric_limits<float>::infinity() : kNaN);
        if (!dlse.empty()) dlse[row] = kNaN;
      }
  }

  void fill(AttentionInputs& args) const {
    args.q = q.data(), args.k = k.data(), args.v = v.data();
    args.bias = desc.has_bias ? bias.data() : nullptr;
    args.mask = desc.has_mask ? in.mask.data() : nullptr;
    args.query_lengths = desc.has_query_lengths ? in.query_lengths.data() : nullptr;
    args.key_lengths = desc.has_key_lengths ? in.key_lengths.data() : nullptr;
    args.query_segment_ids = desc.has_segment_ids ? in.query_segment_ids.data() : nullptr;
    args.key_segment_ids = desc.has_segment_ids ? in.key_segment_ids.data() : nullptr;
  }
};

/// Aligned scratch full of NaN with a canary behind it.
class Scratch {
 public:
  explicit Scratch(int64_t bytes)
      : bytes_(bytes), data_(static_cast<unsigned char*>(std::aligned_alloc(64, (bytes + 127) / 64 * 64)), &std::free) {
    std::memset(data_.get(), 0xff, static_cast<size_t>((bytes + 127) / 64 * 64));
  }
  void* data() const { return data_.get(); }
  bool intact() const {
    for (int64_t i = bytes_; i < (bytes_ + 127) / 64 * 64; i++)
      if (data_.get()[i] != 0xff) return false;
    return true;
  }

 private:
  int64_t bytes_;
  std::unique_ptr<unsigned char, void (*)(void*)> data_;
};

struct AttentionForward {
  TestArray out, lse;
};
struct AttentionBackward {
  TestArray dq, dk, dv, dbias;
};

inline AttentionForward run_forward(const AttentionProblem& p, const AttentionDesc& d, Executor& executor, int64_t slots) {
  AttentionForward y{TestArray(d.type, p.dout.size()), TestArray(DType::f32, d.batch * d.query_length * d.heads)};
  const Scratch scratch(attention_forward_scratch_bytes(d, slots));
  AttentionForwardArgs args;
  p.fill(args);
  args.out = y.out.data(), args.lse = static_cast<float*>(y.lse.data()), args.scratch = scratch.data();
  attention_forward(d, args, slots, executor);
  EXPECT_TRUE(scratch.intact() && y.out.canaries_intact() && y.lse.canaries_intact());
  return y;
}

inline AttentionBackward run_backward(const AttentionProblem& p, const AttentionDesc& d, const AttentionForward& y,
                                      Executor& executor, int64_t slots) {
  const DType kv_type = d.kv_gradients_f32 ? DType::f32 : d.type;
  AttentionBackward g{TestArray(d.type, p.q.size()), TestArray(kv_type, p.k.size()), TestArray(kv_type, p.v.size()),
                      TestArray(DType::f32, d.bias_gradient ? p.bias.size() : 0)};
  const Scratch scratch(attention_backward_scratch_bytes(d, slots));
  AttentionBackwardArgs args;
  p.fill(args);
  args.out = y.out.data(), args.lse = static_cast<const float*>(y.lse.data()), args.dout = p.dout.data();
  args.dlse = p.dlse.empty() ? nullptr : p.dlse.data();
  args.dq = g.dq.data(), args.dk = g.dk.data(), args.dv = g.dv.data(), args.scratch = scratch.data();
  args.dbias = d.bias_gradient ? static_cast<float*>(g.dbias.data()) : nullptr;
  attention_backward(d, args, slots, executor);
  EXPECT_TRUE(scratch.intact() && g.dq.canaries_intact() && g.dk.canaries_intact() && g.dv.canaries_intact() &&
              g.dbias.canaries_intact());
  return g;
}

}  // namespace jaxator::testing
