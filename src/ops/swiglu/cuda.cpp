/// @file
/// SwiGLU on a CUDA stream: check, return early for empty problems, decide, launch.
#include <type_traits>

#include "src/ops/cuda_kernels.h"
#include "src/ops/swiglu/cuda_config.h"
#include "src/runtime/cuda/launch.h"

namespace jaxator {
namespace cuda::images {
extern const Image swiglu;
}
namespace {

using cuda::images::swiglu;

// In vectors, then element by element.
const KernelsByType kForward[] = {JAXATOR_KERNELS_BY_TYPE(swiglu, "swiglu_forward"),
                                  JAXATOR_KERNELS_BY_TYPE(swiglu, "swiglu_forward_elements")};
const KernelsByType kBackward[] = {JAXATOR_KERNELS_BY_TYPE(swiglu, "swiglu_backward"),
                                   JAXATOR_KERNELS_BY_TYPE(swiglu, "swiglu_backward_elements")};

template <class T> T* second_half(const SwigluDesc& desc, T* packed) {
  using Byte = std::conditional_t<std::is_const_v<T>, const char, char>;
  return static_cast<Byte*>(packed) + desc.columns * size_of(desc.type);
}

void launch(const KernelsByType (&kernels)[2], const SwigluDesc& desc, const SwigluCudaConfig& config, const CudaStream& stream,
            auto parameters) {
  parameters.shape = {.rows = config.rows,
                      .units = config.units,
                      .operand_stride = desc.packed ? 2 * desc.columns : 0,  // of the only row
                      .result_stride = desc.columns,
                      .pieces = static_cast<int>(config.pieces),
                      .limit = desc.limit};
  const cuda::Geometry geometry{.grid = {config.blocks, 1, 1}, .block = {config.threads, config.rows_per_block, 1}};
  cuda::launch(kernel_of(kernels[config.vectors ? 0 : 1], desc.type), geometry, stream, parameters);
}

}  // namespace

void swiglu_forward(const SwigluDesc& desc, const SwigluForwardArgs& args, const CudaStream& stream) {
  desc.validate();
  if (desc.rows == 0 || desc.columns == 0) return;
  const void* up = desc.packed ? second_half(desc, args.gate) : args.up;
  launch(kForward, desc, pick_cuda_config(desc, aligned_for_vectors({args.gate, up, args.y})), stream,
         hopper::SwigluForward{.gate = args.gate, .up = up, .y = args.y, .shape = {}});
}

void swiglu_backward(const SwigluDesc& desc, const SwigluBackwardArgs& args, const CudaStream& stream) {
  desc.validate();
  if (desc.rows == 0 || desc.columns == 0) return;
  const void* up = desc.packed ? second_half(desc, args.gate) : args.up;
  void* dup = desc.packed ? second_half(desc, args.dgate) : args.dup;
  launch(kBackward, desc, pick_cuda_config(desc, aligned_for_vectors({args.gate, up, args.dy, args.dgate, dup})), stream,
         hopper::SwigluBackward{.gate = args.gate, .up = up, .dy = args.dy, .dgate = args.dgate, .dup = dup, .shape = {}});
}

}  // namespace jaxator
