/// @file
/// The public functions: check, return early for empty problems, decide, launch.
#include "src/ops/matmul/config.h"
#include "src/ops/matmul/problem.h"
#include "src/runtime/cpu_kernels.h"

namespace jaxator {
namespace {

[[noreturn]] void refuse(const char* name, int64_t value, const std::string& rule) {
  throw Error(std::string(name) + "=" + std::to_string(value) + ": " + rule);
}

}  // namespace

void MatmulDesc::validate() const {
  for (auto [name, size] : {std::pair{"batch", batch}, {"sum", sum}, {"m", m}, {"n", n}, {"k", k}})
    if (size < 0) refuse(name, size, "must not be negative");
  if (out_type != type && out_type != DType::f32)
    throw Error(std::string("out_type=") + name_of(out_type) + ": must be float32 or type, which is " + name_of(type));
  const int kind = static_cast<int>(activation);
  if (kind < 0 || kind > static_cast<int>(Activation::gelu_tanh))
    refuse("activation", kind, "must be 0 (none), 1 (relu), 2 (silu), 3 (gelu) or 4 (gelu_tanh)");
  if (eight_bits() != (eight_b != EightBits::no))
    refuse("eight_b", static_cast<int>(eight_b), "both operands have eight bits or none");
  if (!eight_bits() && (scales_a != Scales::none || scales_b != Scales::none))
    refuse("scales", 1, "only operands of eight bits have scales");
  if (eight_bits() && type != DType::bf16)
    throw Error(std::string("type=") + name_of(type) + ": must be bfloat16 where operands have eight bits");
  if (eight_bits() && sum != 1) refuse("sum", sum, "must be 1 where operands have eight bits");
  if (eight_bits() && has_preactivation) refuse("has_preactivation", 1, "must be 0 where operands have eight bits");
}

void matmul(const MatmulDesc& asked, const MatmulArgs& args, int64_t slots, Executor& executor) {
  asked.validate();
  refuse_eight_bits(asked, "CPU");
  if (slots < 1) refuse("slots", slots, "must be positive");
  const MatmulDesc desc = simplified(asked);
  const MatmulConfig config = pick_config(desc, cpu_features(), cpu_isa());
  if (desc.m == 0 || desc.n == 0 || desc.batch == 0) return;
  cpu_kernels().matmul(desc, config, args, slots, executor);
}

std::string matmul_describe(const MatmulDesc& asked) {
  asked.validate();
  const CpuIsa isa = cpu_isa();
  const MatmulDesc desc = simplified(asked);
  const MatmulConfig config = pick_config(desc, cpu_features(), isa);
  const auto field = [](const char* name, int64_t value) { return std::string(", \"") + name + "\": " + std::to_string(value); };
  return std::string("{\"kernel\": \"") + (config.bf16_dot ? "matmul_bf16dot" : "matmul_f32") + "\", \"isa\": \"" + name_of(isa) +
         "\"" + field("task_rows", config.rows) + field("task_columns", config.columns) + field("depth", config.depth) +
         field("slots", matmul_slots(asked)) + "}";
}

}  // namespace jaxator
