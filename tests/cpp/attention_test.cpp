#include "tests/cpp/attention_bounds.h"

namespace jaxator::testing {
namespace {

std::string describe(const AttentionDesc& d) {
  std::string text = std::string(name_of(d.type)) + " B" + std::to_string(d.batch) + " T" + std::to_string(d.query_length) +
                     " S" + std::to_string(d.key_length) + " N" + std::to_string(d.heads) + " K" + std::to_string(d.kv_heads) +
                     " H" + std::to_string(d.head_size) + " V" + std::to_string(d.value_size);
  if (d.causal) text += d.causal_bottom_right ? " causal bottom right" : " causal";
  text += " window " + std::to_string(d.window_left) + "," + std::to_string(d.window_right);
  const auto shape = [](const int64_t (&s)[4]) {
    return "[" + std::to_string(s[0]) + "," + std::to_string(s[1]) + "," + std::to_string(s[2]) + "," + std::to_string(s[3]) +
           "]";
  };
  if (d.has_bias) text += " bias " + shape(d.bias_shape) + " " + name_of(d.bias_type);
  if (d.has_mask) text += " mask " + shape(d.mask_shape);
  return text + (d.has_query_lengths ? " query lengths" : "") + (d.has_key_lengths ? " key lengths" : "") +
         (d.has_segment_ids ? " segments" : "");
}

/// The product of all options, part by part so that parts can run side by side; shapes, types and broadcast patterns cycle
/// with periods that are coprime to the options'.
void check_product(int part, int parts) {
  int index = 0;
  for (int causal = 0; causal < 4; causal++)
    for (int window = 0; window < 4; window++)
      for (int bias = 0; bias < 2; bias++)
        for (int mask = 0; mask < 2; mask++)
          for (int lengths = 0; lengths < 4; lengths++)
            for (int segments = 0; segments < 2; segments++, index++) {
              if (index % parts != part) continue;
              AttentionDesc d = attention_desc(kDTypes[index / 5 % 3], kAttentionShapes[index % 6]);
              d.causal = causal & 1, d.causal_bottom_right = causal & 2;
              d.window_left = window & 1 ? 7 : -1, d.window_right = window & 2 ? index % 9 : -1;
              d.has_bias = d.bias_gradient = bias, d.bias_type = kDTypes[index / 7 % 3];
              set_shape(d.bias_shape, d, index * 5 % 16);
              d.has_mask = mask;
              set_shape(d.mask_shape, d, index * 7 % 16);
              d.has_query_lengths = lengths & 1, d.has_key_lengths = lengths & 2;
              d.has_segment_ids = segments;
              if (index % 4 == 3) d.scale = -d.scale;
              SCOPED_TRACE(describe(d));
              AttentionProblem p(d, index, index % 3 != 0);
              check_attention(p);
              if (::testing::Test::HasFailure()) return;
            }
}

TEST(Attention, OptionsPart0) { check_product(0, 4); }
TEST(Attention, OptionsPart1) { check_product(1, 4); }
TEST(Attention, OptionsPart2) { check_product(2, 4); }
TEST(Attention, OptionsPart3) { check_product(3, 4); }

TEST(Attention, EveryBroadcastOfMaskAndBias) {
  for (unsigned indexed = 0; indexed < 16; indexed++)
    for (DType type : kDTypes) {
      AttentionDesc d = attention_desc(type, kAttentionShapes[indexed % 2 * 3]);
      d.has_bias = d.bias_gradient = d.has_mask = true;
      d.bias_type = type;
      d.has_segment_ids = indexed & 1;
      d.has_key_lengths = indexed & 2;
      set_shape(d.bias_shape, d, indexed);
      set_shape(d.mask_shape, d, 15 - indexed);
      SCOPED_TRACE(describe(d));
      AttentionProblem p(d, indexed);
      check_attention(p);
    }
}

TEST(Attention, HeadSizesAndLongSequences) {
  int index = 0;
  for (const AttentionShape& shape : kAttentionHeadShapes)
    for (DType type : kDTypes) {
      AttentionDesc d = attention_desc(type, shape);
      d.causal = index % 2, d.causal_bottom_right = index % 4 == 3;
      d.window_left = index % 5 == 4 ? 20 : -1;
      d.has_mask = index % 3 == 2;
      set_shape(d.mask_shape, d, 1 + index % 15);
      SCOPED_TRACE(describe(d));
      AttentionProblem p(d, index++);
      check_attention(p);
    }
}

TEST(Attention, EmptyAndSingle) {
  for (const AttentionShape& shape : kAttentionEdgeShapes)
    for (DType type : kDTypes)
      for (bool bias : {false, true}) {
        AttentionDesc d = attention_desc(type, shape);
        d.has_bias = d.bias_gradient = bias;
        set_shape(d.bias_shape, d, shape.batch == 1 ? 5 : 0);
        d.causal = true;
        SCOPED_TRACE(describe(d));
        AttentionProblem p(d, 3);
        check_attention(p);
      }
}

TEST(Attention, WindowsOverSeveralParts) {
  int index = 0;
  for (DType type : kDTypes)
    for (int options = 0; options < 4; options++) {
      AttentionDesc d = attention_desc(type, {2, 397, 351, 6, 2, 8, 12});
      d.causal = options & 1;
      d.causal_bottom_right = options & 2;
      d.window_left = 31;
      d.window_right = 5;
      d.has_query_lengths = d.has_key_lengths = options == 3;
      SCOPED_TRACE(describe(d));
      AttentionProblem p(d, index++);
      check_attention(p);
    }
}

TEST(Attention, OneSegmentWithPadding) {
  // Tiles of one segment skip the comparison of ids unless some key in them is padding.
  for (DType type : kDTypes) {
    AttentionDesc d = attention_desc(type, {2, 60, 72, 2, 1, 8, 12});
    AttentionProblem p(d, 5);
    p.desc.has_segment_ids = true;
    p.in.query_segment_ids.assign(120, 3);
    p.in.key_segment_ids.assign(144, 3);
    for (int64_t s : {17, 18, 143}) p.in.key_segment_ids[s] = -1;
    p.poison();
    p.in.k = p.k.values(), p.in.v = p.v.values();
    check_attention(p);
  }
}

TEST(Attention, Float32KeyGradientsAreTheUnroundedOnes) {
  for_each_isa([] {
    for (DType type : {DType::bf16, DType::f16}) {
      AttentionDesc d = attention_desc(type, {2, 333, 277, 4, 1, 24, 16});
      d.causal = true;
      const AttentionProblem p(d, 11);
      SerialExecutor executor;
      const AttentionForward y = run_forward(p, d, executor, 1);
      const AttentionBackward rounded = run_backward(p, d, y, executor, 1);
      d.kv_gradients_f32 = true;
      const AttentionBackward wide = run_backward(p, d, y, executor, 1);
      EXPECT_EQ(rounded.dq.bytes(), wide.dq.bytes());
      int64_t exact = 0;
      for (const auto& [narrow, full] : {std::pair{&rounded.dk, &wide.dk}, std::pair{&rounded.dv, &wide.dv}}) {
        TestArray again(type, full->size());
        for (int64_t i = 0; i < full->size(); i++) {
          again.set(i, static_cast<float>((*full)[i]));
          exact += (*full)[i] == (*narrow)[i];
        }
        EXPECT_EQ(again.bytes(), narrow->bytes());
      }
      EXPECT_LT(exact, wide.dk.size());  // they do hold more bits
    }
  });
}

TEST(Attention, FiniteMinimumIsALogit) {
  // A row whose logits are all finfo.min is the mean of its values, as in jax.nn, and so are its gradients: v's is dout / S, q's
  // is 0 up to rounding since logits that differ only by what finfo.min absorbs do not depend on q. Row 1 has larger logits too.
  for (float lowest : {-std::numeric_limits<float>::max(), -1e30f, 1e30f})
    for (DType type : {DType::f32, DType::bf16})
      for_each_isa([&] {
        AttentionDesc d = attention_desc(type, {1, 3, 150, 1, 1, 8, 8});
        d.has_bias = true;
        set_shape(d.bias_shape, d, 3);
        AttentionProblem p(d, 5, false);
        for (int64_t s = 0; s < 150; s++)
          for (int64_t t = 0; t < 3; t++) p.bias.set(t * 150 + s, t != 1 || s % 3 ? lowest : 0);
        p.in.bias = p.bias.values();
        SerialExecutor executor;
        const AttentionForward y = run_forward(p, d, executor, 1);
        const AttentionBackward g = run_backward(p, d, y, executor, 1);
        const double u = type == DType::f32 ? 1e-5 : 0x1p-8;
        const auto few = [&](int64_t s) { return lowest > 0 ? s % 3 != 0 : s % 3 == 0; };  // what row 1 sees
        for (int64_t v = 0; v < 8; v++) {
          double all = 0, some = 0, first = 0;
          for (int64_t s = 0; s < 150; s++) {
            all += p.v[s * 8 + v] / 150;
            some += few(s) ? p.v[s * 8 + v] / (lowest > 0 ? 100 : 50) : 0;
            if (lowest > 0 || few(s)) continue;
            first = (p.dout[v] + p.dout[16 + v]) / 150;
            EXPECT_NEAR(g.dv[s * 8 + v], first, 3 * u * (std::fabs(p.dout[v]) + std::fabs(p.dout[16 + v])));
          }
          EXPECT_NEAR(y.out[v], all, 3 * u);
          EXPECT_NEAR(y.out[16 + v], all, 3 * u);
          if (lowest > 0) {
            EXPECT_NEAR(y.out[8 + v], some, 3 * u);
          }
        }
        EXPECT_NEAR(y.lse[0] / lowest, 1, 1e-6);
      });
}

TEST(Attention, NaNCotangentReachesOnlyWhatItsRowSees) {
  for (DType type : kDTypes)
    for_each_isa([&] {
      AttentionDesc d = attention_desc(type, {1, 40, 50, 2, 1, 8, 8});
      d.causal = true;
      AttentionProblem p(d, 9);
      p.in.key_lengths = {20};
      d.has_key_lengths = p.desc.has_key_lengths = true;
      p.poison();
      for (int64_t v = 0; v < 8; v++) p.dout.set((10 * 2 + 1) * 8 + v, kNaN);  // query 10, head 1: keys 0..10
      SerialExecutor executor;
      const AttentionBackward g = run_backward(p, d, run_forward(p, d, executor, 1), executor, 1);
      for (int64_t row = 0; row < 80; row++) EXPECT_EQ(std::isnan(g.dq[row * 8]), row == 21) << row;
      for (int64_t s = 0; s < 50; s++) EXPECT_EQ(std::isnan(g.dk[s * 8]), s <= 10) << s;
      for (int64_t s = 20; s < 50; s++) EXPECT_EQ(g.dv[s * 8], 0) << s;
    });
}

TEST(Attention, NaNAtVisiblePositionsPropagates) {
  for_each_isa([] {
    for (int64_t at : {0, 40, 52}) {
      AttentionDesc d = attention_desc(DType::f32, {1, 3, 53, 2, 1, 8, 8});
      d.has_bias = true;
      set_shape(d.bias_shape, d, 15);
      AttentionProblem p(d, 5);
      p.bias.set(at, kNaN);  // head 0, query 0
      SerialExecutor executor;
      const AttentionForward y = run_forward(p, d, executor, 1);
      for (int64_t row = 0; row < 6; row++) {
        EXPECT_EQ(std::isnan(y.lse[row]), row == 0);
        for (int64_t v = 0; v < 8; v++) EXPECT_EQ(std::isnan(y.out[row * 8 + v]), row == 0);
      }
    }
  });
}

TEST(Attention, BitsDoNotDependOnThreadsOrSlots) {
  for (DType type : kDTypes)
    for (AttentionShape shape : {AttentionShape{2, 333, 277, 4, 2, 32, 24}, AttentionShape{4, 70, 90, 8, 8, 16, 16}}) {
      AttentionDesc d = attention_desc(type, shape);
      d.causal = true;
      d.has_bias = d.bias_gradient = true;
      set_shape(d.bias_shape, d, shape.batch == 2 ? 7 : 15);
      const AttentionProblem p(d, 7);
      SerialExecutor serial;
      const AttentionForward one = run_forward(p, d, serial, 1);
      const AttentionBackward one_back = run_backward(p, d, one, serial, 1);
      for (int threads : {2, 3, 7}) {
        ThreadPool pool(threads);
        const int64_t slots = threads == 3 ? 2 : attention_slots(d);
        const AttentionForward many = run_forward(p, d, pool, slots);
        const AttentionBackward back = run_backward(p, d, many, pool, slots);
        EXPECT_EQ(one.out.bytes(), many.out.bytes());
        EXPECT_EQ(one.lse.bytes(), many.lse.bytes());
        EXPECT_EQ(one_back.dq.bytes(), back.dq.bytes());
        EXPECT_EQ(one_back.dk.bytes(), back.dk.bytes());
        EXPECT_EQ(one_back.dv.bytes(), back.dv.bytes());
        EXPECT_EQ(one_back.dbias.bytes(), back.dbias.bytes());
      }
    }
}

TEST(Attention, OnlyNeededTilesAreVisited) {
  for_each_isa([] {
    for (int64_t kv_heads : {2, 8}) {
      AttentionDesc d = attention_desc(DType::bf16, {1, 2048, 2048, 8, kv_heads, 128, 128});
      EXPECT_EQ(attention_visited(d).useful, 8 * 2048 * 2048);
      EXPECT_EQ(attention_visited(d).visited, 8 * 2048 * 2048);
      d.causal = true;
      EXPECT_EQ(attention_visited(d).useful, 8ll * 2048 * 2049 / 2);
      EXPECT_LE(attention_visited(d).visited, 1.03 * attention_visited(d).useful);
      d.window_left = 255;
      EXPECT_LE(attention_visited(d).visited, 1.3 * attention_visited(d).useful);
    }
  });
}

TEST(Attention, DescribesTheRoute) {
  for_each_isa([] {
    AttentionDesc d = attention_desc(DType::bf16, {1, 8, 8, 2, 1, 8, 8});
    d.dot = AttentionDot::f32;
    const std::string start = std::string("\", \"isa\": \"") + name_of(cpu_isa()) + "\"";
    EXPECT_EQ(attention_describe(d).find("{\"kernel\": \"flash_f32" + start), 0u);
    d.dot = AttentionDot::bf16;
    if (cpu_isa() == CpuIsa::v4_bf16) {
      EXPECT_EQ(attention_describe(d).find("{\"kernel\": \"flash_bf16dot" + start), 0u);
    } else {
      EXPECT_THROW(attention_describe(d), UnsupportedError);
    }
  });
}

TEST(Attention, ScratchDoesNotGrowWithPairs) {
  AttentionDesc d = attention_desc(DType::bf16, {1, 1 << 20, 1 << 20, 8, 2, 128, 128});
  d.causal = true;
  EXPECT_LE(attention_forward_scratch_bytes(d, attention_slots(d)), 64 << 20);
  EXPECT_LE(attention_backward_scratch_bytes(d, 1), 40ll * (1 << 20) * (8 + 2 + 2) * 128);
}

TEST(Attention, BadRequestsAreNamed) {
  const auto message = [](AttentionDesc d) -> std::string {
    SerialExecutor executor;
    try {
      attention_forward(d, {}, 1, executor);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  const AttentionDesc good = attention_desc(DType::f32, {1, 2, 3, 4, 2, 8, 8});
  AttentionDesc d = good;
  d.kv_heads = 3;
  EXPECT_EQ(message(d), "heads=4: must be a multiple of kv_heads=3");
  d = good;
  d.head_size = 257;
  EXPECT_EQ(message(d), "head_size=257: must be in 1..256");
  d = good;
  d.has_bias = true;
  d.bias_shape[3] = 2;
  EXPECT_EQ(message(d), "bias_shape[3]=2: must be 1 or 3");
  d = good;
  d.window_left = -2;
  EXPECT_EQ(message(d), "window_left=-2: must be -1 (unbounded) or not negative");
  d = good;
  d.dot = AttentionDot::bf16;
  EXPECT_NE(message(d).find("dot=bf16: needs bfloat16 arrays"), std::string::npos);
  d = good;
  d.bias_gradient = true;
  EXPECT_EQ(message(d), "bias_gradient=true: needs a bias");
}

}  // namespace
}  // namespace jaxator::testing
