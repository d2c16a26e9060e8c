/// @file
/// Products of tiles on x86: operands are packed into words of 32 bits (one f32, two bf16, four bytes), then register blocks run
/// over all of k.
#pragma once

#include "src/flight/passes/precompiled.h"
#include "src/flight/passes/tiles_mma.h"
#include "src/flight/passes/tiles_vectors.h"

namespace jaxator::flight {

/// How one word of A meets one word of B.
enum class Dot : uint8_t { fma, bf16, int8, plain_int8 };

/// The numbers of a product on x86.
struct BlockedProduct {
  Dot dot;
  int64_t m, n, groups;  // of k, a word each
  int64_t group;         // elements in a word
  int64_t lanes;         // of a vector, in words
  int64_t columns;       // vectors of a register block
  int64_t rows;          // the most of a register block

  bool operator==(const BlockedProduct&) const = default;
  int64_t panel() const { return lanes * columns; }
  mlir::Type word(mlir::MLIRContext* context) const;
};

BlockedProduct block_product(const Product& product, mlir::Type operand, const Vectors& vectors);

/// A run of `width` elements of an operand along `mode` from (row, k) on.
using ReadOperand = llvm::function_ref<mlir::Value(mlir::Value row, mlir::Value k, int mode, int64_t width)>;

/// Packed words: the word of (row, group) is at row * row_stride + group * group_stride; panels of B are `panel_stride` apart.
struct Packed {
  mlir::Value pointer;
  int64_t row_stride, group_stride, panel_stride;
};

class Packer {
 public:
  Packer(mlir::OpBuilder& b, mlir::Location loc, const BlockedProduct& product) : b_(b), loc_(loc), p_(product) {}

  /// A's words as they are broadcast: along k where k is contiguous in memory, along the rows else. Bytes become unsigned.
  void rows(const Packed& to, ReadOperand read, bool along_k);
  /// B's words, a vector of columns for each group. `sums`, if given, gets 128 times the sum of each column's bytes.
  void panels(const Packed& to, ReadOperand read, bool along_k, mlir::Value sums);
  /// C += A B, by register blocks.
  void multiply(const Packed& a, const Packed& b, mlir::Value c, mlir::Value sums);

 private:
  void block(const Packed& a, const Packed& b, mlir::Value c, mlir::Value sums, mlir::Value panel, mlir::Value first_row,
             int64_t rows);
  mlir::Value words(mlir::Value elements);
  mlir::Value interleaved(ReadOperand read, mlir::Value row, mlir::Value group, int64_t width);
  void transpose(mlir::SmallVectorImpl<mlir::Value>& rows);
  mlir::Value dot(mlir::Value a, mlir::Value b, mlir::Value sum);
  mlir::Value unsigned_bytes(mlir::Value words);

  mlir::Value index(int64_t n) { return mlir::arith::ConstantIndexOp::create(b_, loc_, n); }
  mlir::Value add(mlir::Value x, mlir::Value y);
  mlir::Value times(mlir::Value x, int64_t n);
  void loop(int64_t end, int64_t step, llvm::function_ref<void(mlir::Value)> body);
  mlir::Value load(mlir::Value pointer, mlir::Value offset, int64_t width);
  void store(mlir::Value value, mlir::Value pointer, mlir::Value offset);
  mlir::Value view(mlir::Value pointer, mlir::Value offset, int64_t width);

  mlir::OpBuilder& b_;
  mlir::Location loc_;
  const BlockedProduct& p_;
};

}  // namespace jaxator::flight
