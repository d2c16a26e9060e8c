/// Attention on arrays beyond 4 GiB and 2^31 elements: memory that takes room only where it is touched, and of each grid the last
/// block, which must give the bits that it gives in small arrays. One block is all that a test has time for.
#include <algorithm>
#include <vector>

#include "jaxator/attention.h"
#include "tests/cpp/rocm/rows_testing.h"

namespace jaxator::testing {
namespace {

/// What both passes touch, of bfloat16 with one head. The arrays end with the rows of a small problem.
class Problem {
 public:
  Problem(int device, const AttentionDesc& desc)
      : desc_(desc), queries_(desc.batch * desc.query_length), keys_(desc.batch * desc.key_length) {
    for (int64_t rows : {queries_, keys_, keys_, queries_, queries_, queries_, keys_, keys_})
      arrays_.push_back(std::make_unique<DeviceArray<uint16_t>>(device, rows * desc.head_size));
    lse_ = std::make_unique<DeviceArray<float>>(device, queries_);
    scratch_ = std::make_unique<DeviceArray<char>>(device, attention_rocm_backward_scratch_bytes(desc));
  }

  enum Array { kQ, kK, kV, kOut, kDout, kDq, kDk, kDv };
  int64_t rows(Array array) const { return array == kK || array == kV || array == kDk || array == kDv ? keys_ : queries_; }

  /// The last rows of an array.
  void put(Array array, const TestArray& values) {
    expect_ok(hipMemcpy(arrays_[array]->data() + rows(array) * desc_.head_size - values.size(), values.data(), values.size() * 2,
                        hipMemcpyHostToDevice));
  }
  std::vector<uint16_t> last(Array array, int64_t count) const {
    std::vector<uint16_t> bits(count * desc_.head_size);
    expect_ok(hipMemcpy(bits.data(), arrays_[array]->data() + (rows(array) - count) * desc_.head_size, bits.size() * 2,
                        hipMemcpyDeviceToHost));
    return bits;
  }
  std::vector<float> last_lse(int64_t count) const {
    std::vector<float> values(count);
    expect_ok(hipMemcpy(values.data(), lse_->data() + queries_ - count, count * 4, hipMemcpyDeviceToHost));
    return values;
  }

  void forward(const RocmStream& stream) const {
    AttentionForwardArgs args;
    args.q = at(kQ), args.k = at(kK), args.v = at(kV), args.out = at(kOut), args.lse = lse_->data();
    attention_forward(desc_, args, stream);
  }
  void backward(const RocmStream& stream) const {
    AttentionBackwardArgs args;
    args.q = at(kQ), args.k = at(kK), args.v = at(kV), args.out = at(kOut), args.dout = at(kDout), args.lse = lse_->data();
    args.dq = at(kDq), args.dk = at(kDk), args.dv = at(kDv), args.scratch = scratch_->data();
    attention_backward(desc_, args, stream);
  }

 private:
  void* at(Array array) const { return arrays_[array]->data(); }

  const AttentionDesc desc_;
  const int64_t queries_, keys_;
  std::vector<std::unique_ptr<DeviceArray<uint16_t>>> arrays_;
  std::unique_ptr<DeviceArray<float>> lse_;
  std::unique_ptr<DeviceArray<char>> scratch_;
};

/// Runs one block of each launch.
void only(int64_t block) { jaxator_emulator_run_part(static_cast<unsigned long long>(block), 1); }

constexpr int64_t kElements = int64_t{1} << 31;
constexpr int64_t kSize = 128;

class RocmFarAttention : public RocmRows {
 protected:
  void SetUp() override {
    RocmRows::SetUp();
    // Not of values that nobody wrote: beside the blocks that a test is about run some whose rows are not there.
    configure(emulator::kWaits | emulator::kRaces);
  }
  void TearDown() override {
    jaxator_emulator_run_part(0, 0);
    RocmRows::TearDown();
  }

  static AttentionDesc desc(int64_t batch, int64_t query_length, int64_t key_length) {
    AttentionDesc d{.type = DType::bf16, .batch = batch, .query_length = query_length, .key_length = key_length};
    d.heads = d.kv_heads = 1, d.head_size = d.value_size = kSize, d.scale = 0.125f;
    return d;
  }

  /// The small problem, computed as a whole, and the far one with the same last rows.
  static void fill(Problem& near, Problem& far) {
    std::mt19937_64 random(7);
    for (Problem::Array array : {Problem::kQ, Problem::kK, Problem::kV, Problem::kDout}) {
      const TestArray values = TestArray::normal(DType::bf16, near.rows(array) * kSize, random);
      near.put(array, values), far.put(array, values);
    }
    for (const RocmStream& stream : {prepared(GetParam()), launching(GetParam())}) near.forward(stream), near.backward(stream);
  }

  static void expect_same(const Problem& near, const Problem& far, int64_t queries, int64_t keys) {
    EXPECT_EQ(near.last_lse(queries), far.last_lse(queries));
    for (Problem::Array array : {Problem::kOut, Problem::kDq, Problem::kDk, Problem::kDv}) {
      const int64_t rows = array == Problem::kDk || array == Problem::kDv ? keys : queries;
      const std::vector<uint16_t> bits = far.last(array, rows);
      EXPECT_EQ(near.last(array, rows), bits) << "array " << array;
      EXPECT_TRUE(std::any_of(bits.begin(), bits.end(), [](uint16_t b) { return b != 0; })) << "array " << array;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Every, RocmFarAttention, ::testing::ValuesIn(kDevices), architecture_of);

/// With 16 queries and up to 256 keys every kernel has one block for each batch entry.
TEST_P(RocmFarAttention, ManySequences) {
  constexpr int64_t kQueries = 16, kKeys = 64, kBatch = kElements / (kQueries * kSize) + 1;
  Problem near(GetParam(), desc(1, kQueries, kKeys)), far(GetParam(), desc(kBatch, kQueries, kKeys));
  fill(near, far);
  far.forward(prepared(GetParam())), far.backward(prepared(GetParam()));
  only(kBatch - 1);
  far.forward(launching(GetParam())), far.backward(launching(GetParam()));
  expect_same(near, far, kQueries, kKeys);
}

/// A window keeps the last queries to keys that the small problem has too; both begin its second tile with the same row.
TEST_P(RocmFarAttention, LongSequence) {
  constexpr int64_t kTile = 256, kTiles = kElements / kSize / kTile, kRest = 16, kLength = kTiles * kTile + kRest;
  const auto of_length = [](int64_t length) {
    AttentionDesc d = desc(1, length, length);
    d.causal = true, d.window_left = 200;
    return d;
  };
  Problem near(GetParam(), of_length(kTile + kRest)), far(GetParam(), of_length(kLength));
  fill(near, far);
  far.forward(prepared(GetParam())), far.backward(prepared(GetParam()));
  // The last tiles of queries come first, in the forward pass and for dq.
  only(0);
  far.forward(launching(GetParam()));
  // The kernel for rows has 16 rows a block, those after it have fewer blocks: they are refused, and have their turn later.
  only(kLength / 16 - 1);
  EXPECT_NE(error_of([&] { far.backward(launching(GetParam())); }).find("first_workgroup"), std::string::npos);
  for (int64_t block : {int64_t{0}, kTiles}) {
    only(block);
    far.backward(launching(GetParam()));
  }
  expect_same(near, far, kRest, kRest);
}

}  // namespace
}  // namespace jaxator::testing
