/// The row ops on arrays beyond 4 GiB and 2^32 elements: memory that takes room only where it is touched, and of the grid the
/// blocks that have the first, the middle and the last rows. Each must give the bits that the same rows give in small arrays.
#include <algorithm>
#include <array>
#include <functional>

#include "jaxator/layer_norm.h"
#include "jaxator/rms_norm.h"
#include "jaxator/rope.h"
#include "jaxator/swiglu.h"
#include "src/ops/layer_norm/cdna.h"
#include "src/ops/rms_norm/cdna.h"
#include "tests/cpp/rocm/rows_testing.h"

namespace jaxator::rocm::images {
extern const Image layer_norm_backward, rms_norm_backward;
}

namespace jaxator::testing {
namespace {

using Pointers = std::vector<char*>;

/// An op on rows of bfloat16. Of each array: its elements for a row.
struct RowOp {
  std::string name;
  std::vector<int64_t> in, out;
  int64_t rows_per_block;
  std::function<void(int64_t rows, const Pointers& in, const Pointers& out, const RocmStream&)> run;
};

/// Arrays of an op with this many rows, and access to some of them.
class RowArrays {
 public:
  RowArrays(int device, const RowOp& op, int64_t rows) : op_(op) {
    for (int64_t elements : op.in) in_.push_back(std::make_unique<DeviceArray<char>>(device, rows * elements * 2));
    for (int64_t elements : op.out) out_.push_back(std::make_unique<DeviceArray<char>>(device, rows * elements * 2));
  }
  static Pointers pointers(const std::vector<std::unique_ptr<DeviceArray<char>>>& arrays) {
    Pointers all;
    for (const auto& array : arrays) all.push_back(array->data());
    return all;
  }
  Pointers in() const { return pointers(in_); }
  Pointers out() const { return pointers(out_); }
  void put(size_t array, int64_t row, const TestArray& values) {
    expect_ok(hipMemcpy(in_[array]->data() + row * op_.in[array] * 2, values.data(), values.size() * 2, hipMemcpyHostToDevice));
  }
  std::vector<char> get(size_t array, int64_t row, int64_t rows) const {
    std::vector<char> bytes(rows * op_.out[array] * 2);
    expect_ok(hipMemcpy(bytes.data(), out_[array]->data() + row * op_.out[array] * 2, bytes.size(), hipMemcpyDeviceToHost));
    return bytes;
  }

 private:
  const RowOp& op_;
  std::vector<std::unique_ptr<DeviceArray<char>>> in_, out_;
};

bool all_zero(const std::vector<char>& bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char byte) { return byte == 0; });
}

constexpr int64_t kElements = int64_t{1} << 32;  // of the largest array at least; 8 GiB

class RocmFarRows : public RocmRows {
 public:
  static void expect_same_as_near(int device, const RowOp& op) {
    SCOPED_TRACE(op.name);
    const int64_t longest = *std::max_element(op.in.begin(), op.in.end());
    const int64_t blocks = 2 * (kElements / longest / 2 / op.rows_per_block + 1), rows = blocks * op.rows_per_block + 1;
    RowArrays far(device, op, rows);
    op.run(rows, far.in(), far.out(), prepared(device));
    std::mt19937_64 random(7);
    for (int64_t block : {int64_t{0}, blocks / 2, blocks}) {
      const int64_t row = block * op.rows_per_block, count = std::min(op.rows_per_block, rows - row);
      RowArrays near(device, op, count);
      for (size_t i = 0; i < op.in.size(); i++) {
        const TestArray values = TestArray::normal(DType::bf16, count * op.in[i], random);
        far.put(i, row, values), near.put(i, 0, values);
      }
      jaxator_emulator_run_part(0, 0);
      run_on(device, [&](const RocmStream& stream) { op.run(count, near.in(), near.out(), stream); });
      jaxator_emulator_run_part(block, 1);
      op.run(rows, far.in(), far.out(), launching(device));
      for (size_t i = 0; i < op.out.size(); i++) {
        EXPECT_EQ(far.get(i, row, count), near.get(i, 0, count)) << "result " << i << ", row " << row;
        EXPECT_FALSE(all_zero(far.get(i, row, count)));
        if (row > 0) EXPECT_TRUE(all_zero(far.get(i, row - 1, 1))) << row;
        if (row + count < rows) EXPECT_TRUE(all_zero(far.get(i, row + count, 1))) << row;
      }
    }
  }

 protected:
  void TearDown() override {
    jaxator_emulator_run_part(0, 0);
    RocmRows::TearDown();
  }
};
INSTANTIATE_TEST_SUITE_P(Every, RocmFarRows, ::testing::ValuesIn(kDevices), architecture_of);

TEST_P(RocmFarRows, OnlyThePartOfTheGridRuns) {
  static const rocm::Kernel kScale{rocm::images::test_kernels, "scale"};
  const auto launch = [&](DeviceArray<float>& array, int64_t first, int64_t count) {
    run_on(GetParam(), [&](const RocmStream& stream) {
      jaxator_emulator_run_part(first, count);
      rocm::launch(kScale, {.grid = {4, 1, 1}, .block = {64, 1, 1}}, stream, array.data(), 2.0f, Part{0, 256});
    });
  };
  for (auto [first, count, end] : {std::array{1, 2, 3}, std::array{3, 9, 4}, std::array{2, 0, 4}, std::array{0, 0, 4}}) {
    DeviceArray<float> array(GetParam(), std::vector<float>(256, 1));
    launch(array, first, count);
    const std::vector<float> values = array.values();
    for (int i = 0; i < 256; i++) ASSERT_EQ(values[i], i / 64 >= first && i / 64 < end ? 2.0f : 1.0f) << i;
  }
  DeviceArray<float> array(GetParam(), std::vector<float>(256, 1));
  EXPECT_NE(error_of([&] { launch(array, 4, 1); }).find("first_workgroup=4: must be below 4"), std::string::npos);
}

TEST_P(RocmFarRows, Norms) {
  for (int64_t columns : {4096, 4095}) {  // in vectors, by elements
    const std::string size = " " + std::to_string(columns);
    const RmsNormDesc rms{.type = DType::bf16, .columns = columns, .has_residual = true};
    expect_same_as_near(GetParam(), {"add_rms_norm" + size,
                                     {columns, columns},
                                     {columns, columns},
                                     1,
                                     [=](int64_t rows, const Pointers& in, const Pointers& out, const RocmStream& stream) {
                                       RmsNormDesc desc = rms;
                                       desc.rows = rows;
                                       rms_norm_forward(desc, {in[0], in[1], nullptr, out[0], out[1]}, stream);
                                     }});
    expect_same_as_near(GetParam(), {"layer_norm" + size,
                                     {columns},
                                     {columns},
                                     1,
                                     [=](int64_t rows, const Pointers& in, const Pointers& out, const RocmStream& stream) {
                                       layer_norm_forward({.type = DType::bf16, .rows = rows, .columns = columns},
                                                          {.x = in[0], .weight = nullptr, .bias = nullptr, .y = out[0]}, stream);
                                     }});
  }
}

/// Backward passes go through all their rows, so one block is given a stride between its rows that brings it to the last one.
template <class Parameters>
void expect_strided(int device, const rocm::Kernel& kernel, int64_t columns, int threads, Parameters (*make)(const Pointers&)) {
  SCOPED_TRACE(kernel.entry());
  const int64_t stride = kElements / columns / 2 + 1;
  constexpr int64_t kRows = 3;
  const RowOp op{kernel.entry(), {columns, columns}, {columns}, 1, {}};
  RowArrays near(device, op, kRows), far(device, op, 2 * stride + 1);
  std::mt19937_64 random(7);
  for (int64_t r = 0; r < kRows; r++)
    for (size_t i = 0; i < 2; i++) {
      const TestArray values = TestArray::normal(DType::bf16, columns, random);
      near.put(i, r, values), far.put(i, r * stride, values);
    }
  std::vector<std::vector<float>> partials;
  for (const auto& [arrays, groups] : {std::pair{&near, int64_t{1}}, std::pair{&far, stride}}) {
    DeviceArray<float> sums(device, 2 * columns);
    Parameters p = make({arrays->in()[0], arrays->in()[1], arrays->out()[0], reinterpret_cast<char*>(sums.data())});
    p.rows = 2 * groups + 1, p.columns = static_cast<unsigned>(columns), p.groups = static_cast<unsigned>(groups);
    p.inverse_columns = 1.0f / static_cast<float>(columns), p.epsilon = 1e-5f;
    RocmStream stream{.device = device, .architecture = rocm_device_architecture(device)};
    for (bool prepare_only : {true, false}) {
      stream.prepare_only = prepare_only;
      rocm::launch(kernel, {.grid = {1, 1, 1}, .block = {threads, 1, 1}}, stream, p);
    }
    partials.push_back(sums.values());
  }
  EXPECT_EQ(partials[0], partials[1]);
  for (int64_t r = 0; r < kRows; r++) {
    EXPECT_EQ(near.get(0, r, 1), far.get(0, r * stride, 1)) << r;
    EXPECT_FALSE(all_zero(far.get(0, r * stride, 1)));
  }
}

TEST_P(RocmFarRows, BackwardNorms) {
  static const rocm::Kernel kRms[] = {{rocm::images::rms_norm_backward, "rms_norm_backward1_bf16"},
                                      {rocm::images::rms_norm_backward, "rms_norm_backward_elements_bf16"}};
  static const rocm::Kernel kLayer[] = {{rocm::images::layer_norm_backward, "layer_norm_backward1_bf16"},
                                        {rocm::images::layer_norm_backward, "layer_norm_backward_elements_bf16"}};
  for (int elements : {0, 1}) {
    const int64_t columns = 4096 - elements;
    expect_strided<cdna::RmsNormBackward>(GetParam(), kRms[elements], columns, 512, [](const Pointers& a) {
      cdna::RmsNormBackward p{};
      p.sum = a[0], p.dy = a[1], p.dx = a[2], p.partials = reinterpret_cast<float*>(a[3]);
      return p;
    });
    expect_strided<cdna::LayerNormBackward>(GetParam(), kLayer[elements], columns, 512, [](const Pointers& a) {
      cdna::LayerNormBackward p{};
      p.x = a[0], p.dy = a[1], p.dx = a[2], p.dweight_partials = reinterpret_cast<float*>(a[3]);
      return p;
    });
  }
}

/// columns: of each half. Separate arrays are cut into blocks of 4096 elements.
void expect_far_swiglu(int device, int64_t columns, bool packed, int64_t rows_per_block) {
  const int64_t operand = packed ? 2 * columns : columns;
  const std::string name = " " + std::to_string(columns) + (packed ? " packed" : "");
  const auto desc = [=](int64_t rows) {
    return SwigluDesc{.type = DType::bf16, .rows = rows, .columns = columns, .packed = packed};
  };
  RowOp forward{"swiglu" + name,
                {operand, operand},
                {columns},
                rows_per_block,
                [=](int64_t rows, const Pointers& in, const Pointers& out, const RocmStream& stream) {
                  swiglu_forward(desc(rows), {in[0], packed ? nullptr : in[1], out[0]}, stream);
                }};
  RowOp backward{"swiglu backward" + name,
                 {operand, columns, operand},
                 {operand, operand},
                 rows_per_block,
                 [=](int64_t rows, const Pointers& in, const Pointers& out, const RocmStream& stream) {
                   swiglu_backward(desc(rows), {in[0], packed ? nullptr : in[2], in[1], out[0], packed ? nullptr : out[1]},
                                   stream);
                 }};
  if (packed) forward.in.pop_back(), backward.in.pop_back(), backward.out.pop_back();
  RocmFarRows::expect_same_as_near(device, forward);
  RocmFarRows::expect_same_as_near(device, backward);
}

TEST_P(RocmFarRows, Swiglu) {
  expect_far_swiglu(GetParam(), 4096, false, 1);
  expect_far_swiglu(GetParam(), 2048, true, 2);
  expect_far_swiglu(GetParam(), 511, true, 1);  // by elements
}

TEST_P(RocmFarRows, Rope) {
  for (bool interleaved : {false, true})
    for (int64_t columns : {128, 126}) {  // in vectors, by elements
      constexpr int64_t kHeads = 32;
      // The second array is one position a row: the bits of two bfloat16.
      const RowOp op{"rope " + std::to_string(columns),
                     {kHeads * columns, 2},
                     {kHeads * columns},
                     2,
                     [=](int64_t rows, const Pointers& in, const Pointers& out, const RocmStream& stream) {
                       rope({.type = DType::bf16,
                             .rows = rows,
                             .heads = kHeads,
                             .columns = columns,
                             .angle_rows = rows,
                             .interleaved = interleaved},
                            {.x = in[0],
                             .positions = reinterpret_cast<const int32_t*>(in[1]),
                             .cosine = nullptr,
                             .sine = nullptr,
                             .y = out[0]},
                            stream);
                     }};
      expect_same_as_near(GetParam(), op);
    }
}

}  // namespace
}  // namespace jaxator::testing
