/// @file
/// Results past half of the last-level cache take non-temporal stores; the same rows alone do not. Both must have the same bits.
#pragma once

#include <functional>

#include "tests/cpp/testing.h"

namespace jaxator::testing {

/// Bytes of one row of each operand and result. run(rows, operands, results) is the op.
struct RowBytes {
  std::vector<int64_t> operands, results;
};
using RowOp = std::function<void(int64_t, const std::vector<const void*>&, const std::vector<void*>&)>;

/// A buffer of at least this many bytes, kept between calls because its page faults would take longer than the op.
inline char* kept_buffer(size_t index, int64_t bytes) {
  static std::vector<std::vector<char>> buffers(8);
  if (static_cast<int64_t>(buffers[index].size()) < bytes) buffers[index].resize(bytes);
  return buffers[index].data();
}

/// Runs 64 random bfloat16 rows, then so many copies of them that they are streamed, and compares every row. The results
/// begin `offset` bytes past an allocation, so any alignment can be tried.
inline void expect_same_bits_when_streamed(const RowBytes& bytes, int64_t offset, const RowOp& run) {
  constexpr int64_t kFew = 64;
  const int64_t rows = cpu_features().last_level_cache_bytes / 2 / bytes.results[0] + kFew + 1;
  std::mt19937_64 random(3);
  std::vector<std::vector<char>> few_in, few_out;
  size_t next = 0;
  std::vector<const void*> few_operands, many_operands;
  std::vector<void*> few_results, many_results;
  for (int64_t row : bytes.operands) {
    const TestArray values = TestArray::normal(DType::bf16, kFew * row / 2, random);
    const char* first = static_cast<const char*>(values.data());
    few_in.emplace_back(first, first + kFew * row);
    char* many = kept_buffer(next++, rows * row);
    for (int64_t r = 0; r < rows; r++) std::memcpy(many + r * row, &few_in.back()[r % kFew * row], row);
    few_operands.push_back(few_in.back().data());
    many_operands.push_back(many);
  }
  for (int64_t row : bytes.results) {
    few_out.emplace_back(kFew * row + offset, char(0xa5));
    few_results.push_back(few_out.back().data() + offset);
    many_results.push_back(kept_buffer(next++, rows * row + offset) + offset);
    std::memset(many_results.back(), 0xa5, rows * row);
  }
  run(kFew, few_operands, few_results);
  run(rows, many_operands, many_results);
  for (size_t i = 0; i < bytes.results.size(); i++)
    for (int64_t r = 0, row = bytes.results[i]; r < rows; r++)
      ASSERT_EQ(
          0, std::memcmp(static_cast<char*>(many_results[i]) + r * row, static_cast<char*>(few_results[i]) + r % kFew * row, row))
          << "result " << i << " row " << r;
}

}  // namespace jaxator::testing
