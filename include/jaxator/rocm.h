/// @file
/// The ROCm target: where a kernel runs, and what this machine has. No ROCm header or library is needed to build or to link;
/// libamdhip64 is opened when first used. Kernels for it also run on the emulator, over arrays in the host's memory.
#pragma once

#include <string>
#include <vector>

#include "jaxator/types.h"

namespace jaxator {

/// Architectures that this build has kernels for.
enum class RocmArchitecture : int32_t { gfx942 = 0, gfx950 = 1 };

constexpr const char* name_of(RocmArchitecture architecture) {
  return architecture == RocmArchitecture::gfx942 ? "gfx942" : "gfx950";
}

/// Throws UnsupportedError for an architecture without kernels. The name may carry features: "gfx942:sramecc+:xnack-".
RocmArchitecture rocm_architecture(const std::string& name);

/// The architecture of a device of this machine, asked once.
RocmArchitecture rocm_device_architecture(int device);

/// A stream of one device.
struct RocmStream {
  void* handle = nullptr;  // hipStream_t
  int device = 0;
  RocmArchitecture architecture = RocmArchitecture::gfx942;  // of the device
  /// Load and check everything that a launch with the same arguments would need, and launch nothing. What was prepared can be
  /// launched while the stream is captured: no allocation, no module loading, no failure.
  bool prepare_only = false;
  /// A device of the emulator instead of this machine's; arrays are those that were mapped for it.
  bool emulated = false;
};

/// A failure that HIP reported, with its name and text; on the emulator also what it found wrong in the kernel.
class RocmError : public Error {
 public:
  using Error::Error;
};

struct RocmDevice {
  std::string name;
  std::string architecture;  // without features
  int compute_units = 0;
};

/// The devices of this machine, or the emulator's; empty without a driver or a GPU.
std::vector<RocmDevice> rocm_devices(bool emulated = false);

/// What HIP or its absence says, for people: "" if it can be used.
std::string rocm_problem(bool emulated = false);

/// The kernels of this build, as "rms_norm_forward: gfx942 41312 bytes, gfx950 40128 bytes".
std::vector<std::string> rocm_images();

}  // namespace jaxator
