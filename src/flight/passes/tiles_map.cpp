/// @file
/// A map's body for many elements at once.
#include "src/flight/passes/precompiled.h"
#include "src/flight/passes/tiles.h"

namespace jaxator::flight {

using namespace mlir;

namespace {

bool has_vector_form(Operation& op) {
  return op.getNumRegions() == 0 && OpTrait::hasElementwiseMappableTraits(&op) &&
         llvm::all_of(op.getResultTypes(), [](Type type) { return type.isIntOrIndexOrFloat(); });
}

class Body {
 public:
  Body(OpBuilder& b, MapOp map, int64_t count) : b_(b), body_(map.getBody().front()), count_(count) {}

  SmallVector<Value> run(ArrayRef<Value> inputs) {
    for (auto [argument, input] : llvm::zip(body_.getArguments(), inputs)) vectors_.map(argument, input);
    for (Operation& op : body_.without_terminator()) {
      if (auto constant = dyn_cast<arith::ConstantOp>(op); constant && constant.getType().isIntOrIndexOrFloat())
        vectors_.map(op.getResult(0), splat(constant));
      else if (has_vector_form(op))
        whole(op);
      else
        one_by_one(op);
    }
    SmallVector<Value> results;
    for (const Value value : body_.getTerminator()->getOperands()) results.push_back(vector_of(value));
    return results;
  }

 private:
  VectorType vector_type(Type element) const { return VectorType::get({count_}, element); }

  Value splat(arith::ConstantOp constant) {
    const auto type = vector_type(constant.getType());
    return arith::ConstantOp::create(b_, constant.getLoc(), type, DenseElementsAttr::get(type, Attribute(constant.getValue())));
  }

  Value vector_of(Value value) {
    if (const Value known = vectors_.lookupOrNull(value)) return known;
    // From outside the body: the same for all elements.
    const Value copies = vector::BroadcastOp::create(b_, value.getLoc(), vector_type(value.getType()), value);
    vectors_.map(value, copies);
    return copies;
  }

  void whole(Operation& op) {
    OperationState state(op.getLoc(), op.getName());
    for (const Value operand : op.getOperands()) state.addOperands(vector_of(operand));
    for (const Type type : op.getResultTypes()) state.addTypes(vector_type(type));
    state.addAttributes(op.getAttrs());
    Operation* made = b_.create(state);
    for (auto [from, to] : llvm::zip(op.getResults(), made->getResults())) vectors_.map(from, to);
  }

  /// With regions, or with operands that no vector can hold.
  void one_by_one(Operation& op) {
    SmallVector<Value> used;
    op.walk([&](Operation* inner) {
      for (const Value operand : inner->getOperands())
        if (vectors_.contains(operand)) used.push_back(operand);
    });
    SmallVector<SmallVector<Value>> parts(op.getNumResults());
    for (int64_t i = 0; i < count_; i++) {
      IRMapping one;
      for (const Value operand : used) one.map(operand, vector::ExtractOp::create(b_, op.getLoc(), vectors_.lookup(operand), i));
      Operation* made = b_.clone(op, one);
      for (auto [part, result] : llvm::zip(parts, made->getResults())) part.push_back(result);
    }
    for (auto [result, part] : llvm::zip(op.getResults(), parts))
      vectors_.map(result, vector::FromElementsOp::create(b_, op.getLoc(), vector_type(result.getType()), part));
  }

  OpBuilder& b_;
  Block& body_;
  int64_t count_;
  IRMapping vectors_;
};

}  // namespace

SmallVector<Value> map_vectors(OpBuilder& b, MapOp map, ArrayRef<Value> inputs, int64_t count) {
  return Body(b, map, count).run(inputs);
}

}  // namespace jaxator::flight
