#include "src/runtime/cuda/launch.h"

#include <limits>
#include <mutex>
#include <string>

namespace jaxator::cuda {
namespace {

[[noreturn]] void refuse(const char* entry, const std::string& what, int64_t value, const std::string& rule) {
  throw Error("kernel " + std::string(entry) + ": " + what + "=" + std::to_string(value) + ": " + rule);
}

void at_most(const char* entry, const std::string& what, int64_t value, int64_t limit) {
  if (value > limit) refuse(entry, what, value, "must be at most " + std::to_string(limit));
}

bool clustered(const Geometry& g) { return g.cluster[0] != 1 || g.cluster[1] != 1 || g.cluster[2] != 1; }

void check_extents(const char* entry, const Geometry& g) {
  constexpr int kMostInCluster = 8;  // that every device with clusters takes
  static constexpr int64_t kGridLimits[] = {std::numeric_limits<int32_t>::max(), 65535, 65535}, kBlockLimits[] = {1024, 1024, 64};
  static constexpr const char* kAxes[] = {"x", "y", "z"};
  for (int i = 0; i < 3; i++) {
    const std::string axis = kAxes[i];
    if (g.grid[i] < 1) refuse(entry, "grid." + axis, g.grid[i], "must be positive");
    if (g.block[i] < 1) refuse(entry, "block." + axis, g.block[i], "must be positive");
    if (g.cluster[i] < 1) refuse(entry, "cluster." + axis, g.cluster[i], "must be positive");
    at_most(entry, "grid." + axis, g.grid[i], kGridLimits[i]);
    at_most(entry, "block." + axis, g.block[i], kBlockLimits[i]);
    at_most(entry, "cluster." + axis, g.cluster[i], kMostInCluster);
    if (g.grid[i] % g.cluster[i] != 0)
      refuse(entry, "grid." + axis, g.grid[i], "must be a multiple of the cluster's " + std::to_string(g.cluster[i]));
  }
  at_most(entry, "blocks in a cluster", int64_t{g.cluster[0]} * g.cluster[1] * g.cluster[2], kMostInCluster);
}

/// A kernel compiled for a cluster is launched as one without being told, and refuses another.
void check_compiled_cluster(const Function& function, const char* entry, const Geometry& g) {
  static constexpr const char* kAxes[] = {"x", "y", "z"};
  for (int i = 0; i < 3 && function.cluster[0] > 0; i++) {
    const std::string axis = kAxes[i], rule = "the kernel was compiled for a cluster of " + std::to_string(function.cluster[i]);
    if (clustered(g) && g.cluster[i] != function.cluster[i]) refuse(entry, "cluster." + axis, g.cluster[i], rule + " there");
    if (g.grid[i] % function.cluster[i] != 0) refuse(entry, "grid." + axis, g.grid[i], rule + " and takes multiples of it");
  }
}

void check_arguments(const Function& function, const char* entry, std::span<const int> bytes) {
  if (!function.parameter_bytes) return;
  const std::vector<int>& wanted = *function.parameter_bytes;
  if (bytes.size() != wanted.size())
    refuse(entry, "arguments", static_cast<int64_t>(bytes.size()), "the kernel takes " + std::to_string(wanted.size()));
  for (size_t i = 0; i < wanted.size(); i++)
    if (bytes[i] != wanted[i])
      refuse(entry, "bytes of argument " + std::to_string(i), bytes[i], "the kernel takes " + std::to_string(wanted[i]));
}

}  // namespace

void prepare(Function& function, const char* entry, const Geometry& g, const Arguments& arguments, int device) {
  check_extents(entry, g);
  check_compiled_cluster(function, entry, g);
  check_arguments(function, entry, arguments.bytes);
  at_most(entry, "threads in a block", int64_t{g.block[0]} * g.block[1] * g.block[2], function.max_threads);
  if (g.shared_bytes < 0) refuse(entry, "shared_bytes", g.shared_bytes, "must not be negative");
  if (g.shared_bytes <= function.shared_bytes.load(std::memory_order_relaxed)) return;
  int handle = 0, limit = 0;
  check(driver().DeviceGet(&handle, device), "cuDeviceGet");
  check(driver().DeviceGetAttribute(&limit, kMaxSharedBytesPerBlockOptin, handle), "cuDeviceGetAttribute");
  at_most(entry, "shared_bytes", g.shared_bytes, limit);
  // Only ever raised: another thread may be about to launch with more.
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  if (g.shared_bytes <= function.shared_bytes.load(std::memory_order_relaxed)) return;
  check(driver().FuncSetAttribute(function.handle, kMaxDynamicSharedBytes, g.shared_bytes),
        std::to_string(g.shared_bytes) + " bytes of shared memory for kernel " + entry);
  function.shared_bytes.store(g.shared_bytes, std::memory_order_relaxed);
}

void launch(Function& function, const char* entry, const Geometry& g, const CudaStream& stream, const Arguments& arguments) {
  if (stream.prepare_only) return prepare(function, entry, g, arguments, stream.device);
  LaunchAttribute cluster{kClusterDimension, 0, {unsigned(g.cluster[0]), unsigned(g.cluster[1]), unsigned(g.cluster[2])}};
  const LaunchConfig config{
      .grid = {unsigned(g.grid[0]), unsigned(g.grid[1]), unsigned(g.grid[2])},
      .block = {unsigned(g.block[0]), unsigned(g.block[1]), unsigned(g.block[2])},
      .shared_bytes = unsigned(g.shared_bytes),
      .stream = stream.handle,
      .attributes = &cluster,
      .attribute_count = clustered(g) ? 1u : 0u,
  };
  check(driver().LaunchKernelEx(&config, function.handle, arguments.pointers, nullptr), "launching kernel " + std::string(entry));
}

void zero(void* to, int64_t words, const CudaStream& stream) {
  if (stream.prepare_only) return;
  check(driver().MemsetD32Async(reinterpret_cast<uint64_t>(to), 0, size_t(words), stream.handle), "cuMemsetD32Async");
}

void require_aligned(const char* name, const void* address, int alignment) {
  if (reinterpret_cast<uintptr_t>(address) % alignment != 0)
    throw Error(std::string(name) + " is at an address that is no multiple of " + std::to_string(alignment));
}

}  // namespace jaxator::cuda
