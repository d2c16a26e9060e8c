/// @file
/// Hopper's matrix instruction: a warpgroup multiplies operands that stand in shared memory.
///
/// The hardware reads rows of 128, 64 or 32 bytes of k, eight rows one after another, with the 16-byte pieces of a row exchanged
/// by the row's number. So a view can be an operand where its layout is that swizzle of (rows, k): groups of eight rows and
/// groups of k may be anywhere.
#include "src/flight/passes/precompiled.h"
#include "src/flight/passes/tiles.h"
#include "src/flight/passes/tiles_mma.h"
#include "src/layout/algebra.h"

namespace jaxator::flight {

using namespace mlir;

namespace {

/// How the hardware finds an operand's rows.
struct SharedRows {
  int64_t row_bytes = 0;    // of k that stand together
  int64_t group_bytes = 0;  // from eight rows to the next eight
  int64_t next_bytes = 0;   // from one row_bytes of k to the next
};

FailureOr<SharedRows> shared_rows(TileMmaOp op, Value operand, int64_t rows, int64_t k) {
  const auto type = cast<ViewType>(operand.getType());
  const ViewLayout view = parse_view_layout(type.getLayout());
  const int64_t bytes = type.getElement().getIntOrFloatBitWidth() / 8, piece = 16 / bytes;
  const auto refuse = [&](const Twine& rule) { return op.emitError() << type << ": " << rule; };
  if (view.dynamic_leaves != 0) return refuse("wgmma needs a static layout");
  for (int bits = 1; bits <= 3; bits++) {
    if (!(view.swizzle == layout::Swizzle(bits, int(llvm::Log2_64(piece)), 3))) continue;
    const int64_t together = int64_t{1} << bits, row = together * piece;
    const auto at = [&](int64_t r, int64_t c) { return view.layout(r, c); };
    SharedRows found{row * bytes, rows > 8 ? at(8, 0) * bytes : 0, k > row ? at(0, row) * bytes : 0};
    bool fits = k % row == 0 && view.offset.is(0);
    for (int64_t r = 0; fits && r < rows; r++)
      for (int64_t c = 0; fits && c < k; c++)
        fits = at(r, c) * bytes ==
               r % 8 * found.row_bytes + r / 8 * found.group_bytes + c % row * bytes + c / row * found.next_bytes;
    if (!fits) break;
    if (type.getAlign() < 8 * found.row_bytes)
      return refuse("wgmma needs an alignment of " + Twine(8 * found.row_bytes) + " bytes for this swizzle");
    return found;
  }
  return refuse("wgmma reads rows of 128, 64 or 32 bytes of k, eight rows on end, with the swizzle S<3|2|1," +
                Twine(llvm::Log2_64(piece)) + ",3>");
}

/// The descriptor of the first rows: address, distance of groups, kind of swizzle.
Value descriptor(OpBuilder& b, Location loc, ViewOp view, const SharedRows& rows, Value first_bytes) {
  const auto pointer = LLVM::LLVMPointerType::get(b.getContext(), 3);
  const Type i64 = b.getI64Type();
  const auto number = [&](int64_t n) -> Value { return arith::ConstantIntOp::create(b, loc, n, 64); };
  const Value base = UnrealizedConversionCastOp::create(b, loc, pointer, view.getPointer()).getResult(0);
  const int64_t bytes = view.getResult().getType().getElement().getIntOrFloatBitWidth() / 8;
  const Value offset = arith::MulIOp::create(b, loc, arith::IndexCastOp::create(b, loc, i64, view.getOffset()), number(bytes));
  Value address = arith::AddIOp::create(b, loc, LLVM::PtrToIntOp::create(b, loc, i64, base), offset);
  address = arith::AddIOp::create(b, loc, address, arith::IndexCastOp::create(b, loc, i64, first_bytes));
  const Value place = arith::ShRUIOp::create(b, loc, arith::AndIOp::create(b, loc, address, number(0x3ffff)), number(4));
  const int64_t kind = rows.row_bytes == 128 ? 1 : rows.row_bytes == 64 ? 2 : 3;
  const int64_t fixed = int64_t(uint64_t(kind) << 62 | uint64_t(rows.group_bytes >> 4) << 32 | uint64_t{1} << 16);
  return arith::OrIOp::create(b, loc, place, number(fixed));
}

/// All products of one warpgroup as one piece of assembly: the compiler cannot move a use of the sums between them.
class Assembly {
 public:
  Assembly(const Product& product, int64_t rows, int64_t columns) : product_(product), rows_(rows), columns_(columns) {}

  std::string text(const SharedRows& a, const SharedRows& b) const {
    const Atom& atom = *product_.atom;
    const int64_t sums = rows_ * columns_ * atom.n / 2;
    std::string code = "{\n.reg .b64 da, db;\nfence.proxy.async.shared::cta;\nwgmma.fence.sync.aligned;\n";
    for (int64_t k = 0; k < product_.k; k += atom.k)
      for (int64_t j = 0; j < columns_; j++)
        for (int64_t i = 0; i < rows_; i++) {
          code += "add.s64 da, $" + std::to_string(2 * sums) + ", " + std::to_string(step(a, i * atom.m, k) >> 4) + ";\n";
          code += "add.s64 db, $" + std::to_string(2 * sums + 1) + ", " + std::to_string(step(b, j * atom.n, k) >> 4) + ";\n";
          code += instruction(i + j * rows_);
        }
    return code + "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n}";
  }

  std::string constraints() const {
    const int64_t sums = rows_ * columns_ * product_.atom->n / 2;
    std::string text;
    for (int64_t i = 0; i < sums; i++) text += "=f,";
    for (int64_t i = 0; i < sums; i++) text += std::to_string(i) + ",";
    return text + "l,l,~{memory}";
  }

 private:
  int64_t step(const SharedRows& rows, int64_t row, int64_t k) const {
    const int64_t at = k * bytes();
    return row / 8 * rows.group_bytes + at / rows.row_bytes * rows.next_bytes + at % rows.row_bytes;
  }
  int64_t bytes() const { return product_.atom->k == 32 ? 1 : 2; }

  std::string instruction(int64_t part) const {
    const Atom& atom = *product_.atom;
    const std::string type = atom.operand == "bf16"     ? "bf16"
                             : atom.operand == "f16"    ? "f16"
                             : atom.operand == "f8E5M2" ? "e5m2"
                                                        : "e4m3";
    std::string code = "wgmma.mma_async.sync.aligned.m64n" + std::to_string(atom.n) + "k" + std::to_string(atom.k) + ".f32." +
                       type + "." + type + " {";
    for (int64_t i = 0; i < atom.n / 2; i++) code += (i == 0 ? "$" : ", $") + std::to_string(part * atom.n / 2 + i);
    return code + "}, da, db, 1, 1, 1" + (bytes() == 2 ? ", 0, 0" : "") + ";\n";
  }

  const Product& product_;
  int64_t rows_, columns_;
};

}  // namespace

Value warpgroup_product(OpBuilder& b, TileMmaOp op, const Product& product, Value sums, Value thread) {
  const Location loc = op.getLoc();
  const Atom& atom = *product.atom;
  const auto view_a = op.getA().getDefiningOp<ViewOp>(), view_b = op.getB().getDefiningOp<ViewOp>();
  if (!view_a || !view_b) {
    op.emitError() << op.getAtom() << " takes A and B as views of shared memory";
    return {};
  }
  const auto rows_a = shared_rows(op, op.getA(), product.m, product.k), rows_b = shared_rows(op, op.getB(), product.n, product.k);
  if (failed(rows_a) || failed(rows_b)) return {};
  const int64_t waves_m = layout::size(product.waves.mode(0)).value, waves_n = layout::size(product.waves.mode(1)).value;
  const int64_t rows = product.m / waves_m / atom.m, columns = product.n / waves_n / atom.n;

  // Where this warpgroup's rows begin: its place in (M, N) by its number, the same for all its lanes.
  const layout::Layout number = layout::right_inverse(product.waves);
  const auto index = [&](int64_t n) -> Value { return arith::ConstantIndexOp::create(b, loc, n); };
  const auto first = [&](bool is_b, const SharedRows& at) -> Value {
    const layout::Layout places(
        {layout::tuple(waves_m, waves_n)},
        layout::tuple(is_b ? 0 : rows * atom.m / 8 * at.group_bytes, is_b ? columns * atom.n / 8 * at.group_bytes : 0));
    const layout::Layout bytes = layout::composition(places, number);
    Value sum = index(0);
    int64_t weight = atom.lanes;
    for (int k = 0; k < bytes.count; k++) {
      const int64_t size = bytes.leaves[k].shape.value;
      const Value digit = arith::RemUIOp::create(b, loc, arith::DivUIOp::create(b, loc, thread, index(weight)), index(size));
      sum = arith::AddIOp::create(b, loc, sum, arith::MulIOp::create(b, loc, digit, index(bytes.leaves[k].stride.value)));
      weight *= size;
    }
    return sum;
  };
  SmallVector<Value> operands;
  const auto type = cast<VectorType>(sums.getType());
  for (int64_t i = 0; i < type.getNumElements(); i++) operands.push_back(vector::ExtractOp::create(b, loc, sums, i));
  operands.push_back(descriptor(b, loc, view_a, *rows_a, first(false, *rows_a)));
  operands.push_back(descriptor(b, loc, view_b, *rows_b, first(true, *rows_b)));

  const Assembly assembly(product, rows, columns);
  const auto result = LLVM::LLVMStructType::getLiteral(b.getContext(), SmallVector<Type>(type.getNumElements(), b.getF32Type()));
  const Value made = LLVM::InlineAsmOp::create(b, loc, result, operands, assembly.text(*rows_a, *rows_b), assembly.constraints(),
                                               /*has_side_effects=*/true, /*is_align_stack=*/false, LLVM::TailCallKind::None,
                                               LLVM::AsmDialectAttr::get(b.getContext(), LLVM::AsmDialect::AD_ATT), ArrayAttr())
                         .getResult(0);
  SmallVector<Value> parts;
  for (int64_t i = 0; i < type.getNumElements(); i++)
    parts.push_back(LLVM::ExtractValueOp::create(b, loc, made, ArrayRef<int64_t>{i}));
  return vector::FromElementsOp::create(b, loc, type, parts);
}

}  // namespace jaxator::flight
