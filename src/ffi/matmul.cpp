/// @file
/// a, b, [scales of a], [scales of b], [bias], [residual] -> out, [preactivation], scratch
/// a [batch..., sum..., M, K] or transposed [batch..., sum..., K, M], b [batch..., sum..., K, N] or transposed [batch..., sum...,
/// N, K], scales float32 of one
/// element or [batch..., M] and [batch..., N], bias float32 [batch..., N], residual and the results [batch..., M, N]; scratch
/// uint8. The attributes batch_rank and sum_rank count the dimensions in front, batch_a, sum_a and so on say which operands have
/// them.
#include "jaxator/matmul.h"

#include <type_traits>
#include <utility>

#include "src/ffi/ffi.h"

namespace jaxator::ffi {
namespace {

MatmulDesc desc_of(const Attributes& attributes) {
  MatmulDesc desc;
  desc.transpose_a = attributes.get<bool>("transpose_a");
  desc.transpose_b = attributes.get<bool>("transpose_b");
  desc.batch_a = attributes.get<bool>("batch_a"), desc.batch_b = attributes.get<bool>("batch_b");
  desc.sum_a = attributes.get<bool>("sum_a"), desc.sum_b = attributes.get<bool>("sum_b");
  desc.batch_bias = attributes.get<bool>("batch_bias");
  desc.has_bias = attributes.get<bool>("has_bias");
  desc.has_residual = attributes.get<bool>("has_residual");
  desc.has_preactivation = attributes.get<bool>("has_preactivation");
  desc.activation = static_cast<Activation>(attributes.get<int64_t>("activation"));
  const int64_t route = attributes.get<int64_t>("route");
  if (route < 0 || route > 3)
    throw Error("route=" + std::to_string(route) + ": must be 0 (by target), 1 (float32), 2 (bfloat16 dot) or 3 (tf32)");
  desc.route = static_cast<MatmulRoute>(route);
  for (auto [name, scales] : {std::pair{"scales_a", &desc.scales_a}, {"scales_b", &desc.scales_b}}) {
    const int64_t kind = attributes.get<int64_t>(name);
    if (kind < 0 || kind > 2)
      throw Error(std::string(name) + "=" + std::to_string(kind) + ": must be 0 (none), 1 (one) or 2 (each)");
    *scales = static_cast<Scales>(kind);
  }
  return desc;
}

/// What depends on the operands' types is checked when they are there.
void check(const Attributes& attributes) {
  MatmulDesc desc = desc_of(attributes);
  desc.scales_a = desc.scales_b = Scales::none;
  desc.validate();
}

EightBits eight_bits_of(const Buffer& buffer) {
  return buffer.type == xla::ffi::DataType::F8E4M3FN ? EightBits::e4m3
         : buffer.type == xla::ffi::DataType::F8E5M2 ? EightBits::e5m2
                                                     : EightBits::no;
}

/// Reads the dimensions of one operand in order; a size that another operand gave must be the same.
class Dimensions {
 public:
  Dimensions(const char* name, const Buffer& buffer) : name_(name), buffer_(buffer) {}
  /// The product of the next `count` dimensions.
  void take(int64_t count, const char* what, int64_t& size) {
    int64_t found = 1;
    for (; count > 0; count--) found *= next();
    if (size >= 0 && found != size)
      throw Error(std::string(what) + "=" + std::to_string(found) + " in " + name_ + ": is " + std::to_string(size) +
                  " in another operand");
    size = found;
  }
  void end() const {
    if (at_ != buffer_.dimensions.size())
      throw Error(std::string(name_) + " has " + std::to_string(buffer_.dimensions.size()) + " dimensions: must have " +
                  std::to_string(at_));
  }

 private:
  int64_t next() {
    if (at_ == buffer_.dimensions.size()) throw Error(std::string(name_) + " has too few dimensions: " + std::to_string(at_));
    return buffer_.dimensions[at_++];
  }
  const char* name_;
  const Buffer& buffer_;
  size_t at_ = 0;
};

/// Takes the operands and completes desc with their shapes.
void take_operands(Call& call, MatmulDesc& desc, MatmulArgs& args) {
  desc = desc_of(call.attributes);
  const int64_t batch_rank = call.attributes.get<int64_t>("batch_rank"), sum_rank = call.attributes.get<int64_t>("sum_rank");
  desc.batch = desc.sum = desc.m = desc.n = desc.k = -1;
  const auto matrix = [&](const char* name, const Buffer& buffer, bool batched, bool summed, int64_t& first,
                          const char* first_name, int64_t& second, const char* second_name) {
    Dimensions dimensions(name, buffer);
    if (batched) dimensions.take(batch_rank, "batch", desc.batch);
    if (summed) dimensions.take(sum_rank, "sum", desc.sum);
    dimensions.take(1, first_name, first), dimensions.take(1, second_name, second), dimensions.end();
  };
  const Buffer a = call.operand(), b = call.operand();
  const Buffer scales_a = call.operand_if(desc.scales_a != Scales::none),
               scales_b = call.operand_if(desc.scales_b != Scales::none);
  const Buffer bias = call.operand_if(desc.has_bias), residual = call.operand_if(desc.has_residual);
  desc.transpose_a ? matrix("a", a, desc.batch_a, desc.sum_a, desc.k, "k", desc.m, "m")
                   : matrix("a", a, desc.batch_a, desc.sum_a, desc.m, "m", desc.k, "k");
  desc.transpose_b ? matrix("b", b, desc.batch_b, desc.sum_b, desc.n, "n", desc.k, "k")
                   : matrix("b", b, desc.batch_b, desc.sum_b, desc.k, "k", desc.n, "n");
  if (desc.has_bias) {
    Dimensions dimensions("bias", bias);
    if (desc.batch_bias) dimensions.take(batch_rank, "batch", desc.batch);
    dimensions.take(1, "n", desc.n), dimensions.end();
  }
  if (desc.has_residual) matrix("residual", residual, true, false, desc.m, "m", desc.n, "n");
  if (desc.batch < 0) desc.batch = 1;
  if (desc.sum < 0) desc.sum = 1;
  desc.eight_a = eight_bits_of(a), desc.eight_b = eight_bits_of(b);
  if (a.type != b.type && !desc.eight_bits()) throw Error("a and b have different element types");
  desc.type = desc.eight_bits() ? DType::bf16 : a.dtype();
  const auto elements = [&](Scales kind, bool batched, int64_t rows) {
    return kind == Scales::each ? (batched ? desc.batch : 1) * rows : kind == Scales::one ? 1 : 0;
  };
  require_elements("scales of a", scales_a, elements(desc.scales_a, desc.batch_a, desc.m));
  require_elements("scales of b", scales_b, elements(desc.scales_b, desc.batch_b, desc.n));
  args.scales_a = scales_a.as<float>(), args.scales_b = scales_b.as<float>();
  args.a = a.data, args.b = b.data, args.bias = bias.as<float>(), args.residual = residual.data;
}

template <class Target> void execute(Call& call, Target& target) {
  MatmulDesc desc;
  MatmulArgs args;
  take_operands(call, desc, args);
  const Buffer out = call.result();
  desc.out_type = out.dtype();
  require_elements("out", out, desc.batch * desc.m * desc.n);
  args.out = out.data;
  args.preactivation = call.result_if(desc.has_preactivation).data;
  const Buffer scratch = call.result();
  args.scratch = scratch.data;
  desc.validate();
  if constexpr (std::is_same_v<Target, const RocmStream>) {
    require_elements("scratch", scratch, matmul_rocm_scratch_bytes(desc));
    matmul(desc, args, target);
  } else if constexpr (std::is_same_v<Target, Executor>) {
    const int64_t slots = call.attributes.template get<int64_t>("slots");
    require_elements("scratch", scratch, matmul_scratch_bytes(desc, slots));
    matmul(desc, args, slots, target);
  } else {
    require_elements("scratch", scratch, matmul_cuda_scratch_bytes(desc));
    matmul(desc, args, target);
  }
}

}  // namespace
}  // namespace jaxator::ffi

JAXATOR_FFI_HANDLER(matmul, jaxator::ffi::check, jaxator::ffi::execute)
JAXATOR_FFI_ROCM_HANDLER(matmul, jaxator::ffi::execute)
