/// @file
/// Products of tiles: the atoms of each wave, one after another.
#include "src/flight/atoms.h"
#include "src/flight/passes/tiles.h"
#include "src/flight/passes/tiles_mma.h"
#include "src/flight/passes/tiles_to_threads.h"

namespace jaxator::flight {

using namespace mlir;
using layout::Int;
using layout::IntTuple;
using layout::Layout;

namespace {

Coordinates same(Coordinates at) { return at; }

/// What a thread holds of one operand, atom by atom: read from shared memory when it is asked for, or picked from its vector.
class Fragments {
 public:
  Fragments(OpBuilder& b, Location loc, Value operand, const Layout& spread, Value thread,
            std::optional<SmallVector<int64_t>> places)
      : b_(b), loc_(loc), operand_(operand), places_(std::move(places)) {
    const Layout values = spread.mode(1);
    count = layout::size(values.mode(0)).value;
    rows = layout::size(values.mode(1)).value;
    depth = layout::size(values.mode(2)).value;
    if (!places_) view_.emplace(b, loc, operand.getDefiningOp<ViewOp>(), spread, thread);
  }

  /// Of one atom.
  Value atom(int64_t row, int64_t k) {
    if (view_) return load(view_->values().mode(0), view_->index_of(layout::tuple(0, row, k), view_->values()));
    return pick((row + k * rows) * count, count);
  }
  /// Of all atoms at this k: a number, or an index of run time where the operand is in memory.
  Value all(OpFoldResult k) {
    if (const auto number = getConstantIntValue(k); number && places_) return pick(*number * rows * count, rows * count);
    const auto value = dyn_cast<Value>(k);
    const Int place = value ? view_->handle(value) : Int(*getConstantIntValue(k));
    return load(view_->values().take(0, 2), view_->index_of(layout::tuple(0, 0, place), view_->values()));
  }
  bool in_memory() const { return view_.has_value(); }

  int64_t count = 0, rows = 0, depth = 0;

 private:
  Value load(const Layout& values, Int start) {
    const Value source = view_->values_from(values, start);
    const Type element = cast<ViewType>(source.getType()).getElement();
    const auto type = VectorType::get({layout::size(values).value}, element);
    return LoadOp::create(b_, loc_, type, source, Value(), Value());
  }
  Value pick(int64_t first, int64_t length) {
    return vector::ShuffleOp::create(b_, loc_, operand_, operand_, ArrayRef(*places_).slice(first, length));
  }

  OpBuilder& b_;
  Location loc_;
  Value operand_;
  std::optional<SmallVector<int64_t>> places_;
  std::optional<ThreadView> view_;
};

/// Products of one lane alone: at each k a column of A times a row of B.
class Plain {
 public:
  Plain(OpBuilder& b, Location loc, const Atom& atom, Fragments& a, Fragments& c) : b_(b), loc_(loc), atom_(atom), a_(a), n_(c) {}

  Value run(Value sums) {
    if (!a_.in_memory() || !n_.in_memory() || a_.depth == 1) {
      for (int64_t k = 0; k < a_.depth; k++) sums = step(sums, b_.getIndexAttr(k));
      return sums;
    }
    const auto index = [&](int64_t n) -> Value { return arith::ConstantIndexOp::create(b_, loc_, n); };
    auto loop = scf::ForOp::create(b_, loc_, index(0), index(a_.depth), index(1), sums);
    OpBuilder::InsertionGuard guard(b_);
    b_.setInsertionPointToStart(loop.getBody());
    scf::YieldOp::create(b_, loc_, step(loop.getRegionIterArg(0), loop.getInductionVar()));
    return loop.getResult(0);
  }

 private:
  Value step(Value sums, OpFoldResult k) {
    const Type element = getElementTypeOrSelf(sums.getType());
    const Value a = convert(b_, loc_, a_.all(k), element), b = convert(b_, loc_, n_.all(k), element);
    for (int64_t column = 0; column < n_.rows; column++) {
      Value sum = slice(sums, column * a_.rows, a_.rows, 1);
      for (int kk = 0; kk < atom_.k; kk++) {
        const Value factor = vector::ExtractOp::create(b_, loc_, b, column * atom_.k + kk);
        sum = multiply_add(b_, loc_, slice(a, kk, a_.rows, atom_.k), vector::BroadcastOp::create(b_, loc_, sum.getType(), factor),
                           sum);
      }
      sums = vector::InsertStridedSliceOp::create(b_, loc_, sum, sums, ArrayRef<int64_t>{column * a_.rows}, ArrayRef<int64_t>{1});
    }
    return sums;
  }

  Value slice(Value vector, int64_t first, int64_t count, int64_t step) {
    SmallVector<int64_t> places;
    for (int64_t i = 0; i < count; i++) places.push_back(first + i * step);
    return vector::ShuffleOp::create(b_, loc_, vector, vector, places);
  }

  OpBuilder& b_;
  Location loc_;
  const Atom& atom_;
  Fragments &a_, &n_;
};

/// Several of these MFMA along k as one: each lane has 16 bytes of neighbouring k, and each instruction takes the next part of
/// them. Which k meet in an instruction does not matter, as long as A and B agree; one wide read is a quarter of the
/// instructions.
Atom widened(const Atom& atom, int64_t depth) {
  Atom wide = atom;
  const int64_t size = atom.m, groups = atom.lanes / size;
  int64_t values = layout::size(atom.a.mode(1)).value;
  const int64_t bytes = atom.operand == "f32" ? 4 : atom.operand == "bf16" || atom.operand == "f16" ? 2 : 1;
  while (2 * values * bytes <= 16 && depth % (2 * wide.k) == 0) {
    values *= 2;
    wide.k *= 2;
  }
  wide.a = wide.b = layout::make_layout(layout::tuple(layout::tuple(size, groups), values),
                                        layout::tuple(layout::tuple(1, size * values), size));
  return wide;
}

/// Products of a wave: sums stay in a vector an atom. The fragments may be those of several atoms along k.
Value wave_products(OpBuilder& b, Location loc, const Atom& atom, Fragments& a, Fragments& n, Value sums) {
  const int64_t count = layout::size(atom.c.mode(1)).value, values = layout::size(atom.a.mode(1)).value;
  const int64_t b_values = layout::size(atom.b.mode(1)).value;
  const auto part_of = [&](Value fragment, int64_t first, int64_t length) -> Value {
    return vector::ExtractStridedSliceOp::create(b, loc, fragment, ArrayRef<int64_t>{first}, ArrayRef<int64_t>{length},
                                                 ArrayRef<int64_t>{1});
  };
  SmallVector<Value> parts;
  for (int64_t i = 0; i < a.rows * n.rows; i++) parts.push_back(part_of(sums, i * count, count));
  for (int64_t k = 0; k < a.depth; k++) {
    SmallVector<Value> left, right;
    for (int64_t i = 0; i < a.rows; i++) left.push_back(a.atom(i, k));
    for (int64_t j = 0; j < n.rows; j++) right.push_back(n.atom(j, k));
    for (int64_t first = 0; first < a.count; first += values)
      for (int64_t j = 0; j < n.rows; j++)
        for (int64_t i = 0; i < a.rows; i++) {
          Value& sum = parts[i + j * a.rows];
          const Value x = part_of(left[i], first, values), y = part_of(right[j], first / values * b_values, b_values);
          sum = MmaOp::create(b, loc, b.getStringAttr(atom.name), x, y, sum, Value(), Value());
        }
  }
  for (auto [i, part] : llvm::enumerate(parts))
    sums = vector::InsertStridedSliceOp::create(b, loc, part, sums, ArrayRef<int64_t>{int64_t(i) * count}, ArrayRef<int64_t>{1});
  return sums;
}

}  // namespace

LogicalResult ThreadTiles::mma(TileMmaOp op) {
  const FailureOr<Product> product =
      product_of(op, target_.name, tile_or_view(op.getA()), tile_or_view(op.getB()), tiles_.at(op.getC()));
  if (failed(product)) return failure();
  const Atom& atom = *product->atom;
  const auto block = function_->getAttrOfType<DenseI64ArrayAttr>("flight.block");
  if (const int64_t threads = block[0] * block[1] * block[2], needed = atom.lanes * layout::size(product->waves).value;
      threads != needed)
    return op.emitError() << "waves " << op.getWaves() << " of " << atom.lanes << " lanes are " << needed
                          << " threads, the block has " << threads;

  const auto places = [&](Value operand, const Layout& spread, int64_t rows) -> std::optional<SmallVector<int64_t>> {
    return value_map(spread_of(operand), Spread(layout::tuple(rows, product->k), spread), same);
  };
  const bool in_memory = isa<ViewType>(op.getA().getType()) && isa<ViewType>(op.getB().getType());
  const Atom taken = atom.kind == AtomKind::mfma && in_memory ? widened(atom, product->k) : atom;
  const auto fragments = [&](Value operand, Operand which, int64_t rows) -> FailureOr<Fragments> {
    const Layout spread = mma_spread(taken, product->waves, which, rows, product->k);
    if (isa<ViewType>(operand.getType())) return Fragments(b_, loc_, operand, spread, thread(), std::nullopt);
    auto held = places(operand, spread, rows);
    if (!held)
      return op.emitError() << "the operand " << tiles_.at(operand) << " must have the spread " << to_string(spread)
                            << " of the atom";
    return Fragments(b_, loc_, operand, spread, thread(), std::move(held));
  };
  const Spread& held = spread_of(op.getC());
  const Layout c_spread = mma_spread(atom, product->waves, Operand::c, product->m, product->n);
  const Spread wanted(layout::tuple(product->m, product->n), c_spread);
  const auto into = value_map(held, wanted, same), back = value_map(wanted, held, same);
  if (!into || !back)
    return op.emitError() << "C's spread must be " << to_string(c_spread) << ", as atom and waves give it, not "
                          << tiles_.at(op.getC());

  Value sums = vector::ShuffleOp::create(b_, loc_, op.getC(), op.getC(), *into);
  if (atom.kind == AtomKind::wgmma) {
    sums = warpgroup_product(b_, op, *product, sums, thread());
    if (!sums) return failure();
  } else {
    auto a = fragments(op.getA(), Operand::a, product->m);
    if (failed(a)) return failure();
    auto n = fragments(op.getB(), Operand::b, product->n);
    if (failed(n)) return failure();
    sums = atom.kind == AtomKind::plain ? Plain(b_, loc_, atom, *a, *n).run(sums) : wave_products(b_, loc_, atom, *a, *n, sums);
  }
  return replace(op, Value(vector::ShuffleOp::create(b_, loc_, sums, sums, *back)));
}

}  // namespace jaxator::flight
