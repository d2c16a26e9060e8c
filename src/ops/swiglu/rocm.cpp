/// @file
/// SwiGLU on a ROCm stream: check, return early for empty problems, decide, launch.
#include <type_traits>

#include "src/ops/rocm_kernels.h"
#include "src/ops/swiglu/rocm_config.h"

namespace jaxator {
namespace rocm::images {
extern const Image swiglu;
}
namespace {

using rocm::images::swiglu;

// In vectors, then element by element.
const RocmKernelsByType kForward[] = {JAXATOR_ROCM_KERNELS_BY_TYPE(swiglu, "swiglu_forward"),
                                      JAXATOR_ROCM_KERNELS_BY_TYPE(swiglu, "swiglu_forward_elements")};
const RocmKernelsByType kBackward[] = {JAXATOR_ROCM_KERNELS_BY_TYPE(swiglu, "swiglu_backward"),
                                       JAXATOR_ROCM_KERNELS_BY_TYPE(swiglu, "swiglu_backward_elements")};

/// Offsets in a row are counted in 31 bits, in bytes. Without packing the kernels cut rows themselves.
void check_columns(const SwigluDesc& desc) {
  constexpr int64_t kMost = int64_t{1} << 28;
  if (desc.packed && desc.columns > kMost)
    throw Error("columns=" + std::to_string(desc.columns) + ": must be at most " + std::to_string(kMost) + " if packed");
}

template <class T> T* second_half(const SwigluDesc& desc, T* packed) {
  using Byte = std::conditional_t<std::is_const_v<T>, const char, char>;
  return static_cast<Byte*>(packed) + desc.columns * size_of(desc.type);
}

void launch(const RocmKernelsByType (&kernels)[2], const SwigluDesc& desc, const SwigluRocmConfig& config,
            const RocmStream& stream, auto parameters) {
  parameters.shape = {.rows = config.rows,
                      .operand_stride = desc.packed ? 2 * config.stride : config.stride,
                      .result_stride = config.stride,
                      .units = static_cast<unsigned>(config.units),
                      .last_units = static_cast<unsigned>(config.last_units),
                      .limit = desc.limit};
  const rocm::Geometry geometry{.grid = {config.blocks, config.pieces, 1}, .block = {config.threads, config.rows_per_block, 1}};
  rocm::launch(kernel_of(kernels[config.vectors ? 0 : 1], desc.type), geometry, stream, parameters);
}

}  // namespace

void swiglu_forward(const SwigluDesc& desc, const SwigluForwardArgs& args, const RocmStream& stream) {
  desc.validate();
  check_columns(desc);
  if (desc.rows == 0 || desc.columns == 0) return;
  const void* up = desc.packed ? second_half(desc, args.gate) : args.up;
  launch(kForward, desc, pick_rocm_config(desc, rocm_aligned_for_vectors({args.gate, up, args.y})), stream,
         cdna::SwigluForward{.gate = args.gate, .up = up, .y = args.y, .shape = {}});
}

void swiglu_backward(const SwigluDesc& desc, const SwigluBackwardArgs& args, const RocmStream& stream) {
  desc.validate();
  check_columns(desc);
  if (desc.rows == 0 || desc.columns == 0) return;
  const void* up = desc.packed ? second_half(desc, args.gate) : args.up;
  void* dup = desc.packed ? second_half(desc, args.dgate) : args.dup;
  const bool aligned = rocm_aligned_for_vectors({args.gate, up, args.dy, args.dgate, dup});
  launch(kBackward, desc, pick_rocm_config(desc, aligned), stream,
         cdna::SwigluBackward{.gate = args.gate, .up = up, .dy = args.dy, .dgate = args.dgate, .dup = dup, .shape = {}});
}

}  // namespace jaxator
