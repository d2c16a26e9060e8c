/// @file
/// The CUDA target: where a kernel runs, and what this machine has. No CUDA header or library is needed to build or to link;
/// libcuda.so.1 is opened when first used.
#pragma once

#include <string>
#include <vector>

#include "jaxator/types.h"

namespace jaxator {

/// A stream of one device, whose primary context is current in the calling thread.
struct CudaStream {
  void* handle = nullptr;  // CUstream
  int device = 0;
  /// Load and check everything that a launch with the same arguments would need, and launch nothing. What was prepared can be
  /// launched while the stream is captured: no allocation, no module loading, no failure.
  bool prepare_only = false;
};

/// A failure that the CUDA driver reported, with its name and text.
class CudaError : public Error {
 public:
  using Error::Error;
};

struct CudaDevice {
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
};

/// The devices of this machine; empty without a driver or a GPU.
std::vector<CudaDevice> cuda_devices();

/// What the driver or its absence says, for people: "" if it can be used.
std::string cuda_problem();

/// The kernels of this build, as "rms_norm_forward: sm_90a PTX 41312 bytes, cubin 60128 bytes".
std::vector<std::string> cuda_images();

}  // namespace jaxator
