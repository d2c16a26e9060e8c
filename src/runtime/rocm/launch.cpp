#include "src/runtime/rocm/launch.h"

#include <limits>
#include <string>

namespace jaxator::rocm {
namespace {

[[noreturn]] void refuse(const char* entry, const std::string& what, int64_t value, const std::string& rule) {
  throw Error("kernel " + std::string(entry) + ": " + what + "=" + std::to_string(value) + ": " + rule);
}

void at_most(const char* entry, const std::string& what, int64_t value, int64_t limit) {
  if (value > limit) refuse(entry, what, value, "must be at most " + std::to_string(limit));
}

/// The hardware counts threads of the grid in 32 bits on each axis.
void check_extents(const char* entry, const Geometry& g) {
  constexpr int64_t kMostThreads = 1024, kMostInGrid = std::numeric_limits<uint32_t>::max();
  static constexpr const char* kAxes[] = {"x", "y", "z"};
  for (int i = 0; i < 3; i++) {
    const std::string axis = kAxes[i];
    if (g.grid[i] < 1) refuse(entry, "grid." + axis, g.grid[i], "must be positive");
    if (g.block[i] < 1) refuse(entry, "block." + axis, g.block[i], "must be positive");
    at_most(entry, "block." + axis, g.block[i], kMostThreads);
    at_most(entry, "grid." + axis, g.grid[i], kMostInGrid / g.block[i]);
  }
}

}  // namespace

void prepare(const Function& function, const char* entry, const Geometry& g, RocmArchitecture architecture) {
  check_extents(entry, g);
  at_most(entry, "threads in a block", int64_t{g.block[0]} * g.block[1] * g.block[2], function.max_threads);
  if (g.shared_bytes < 0) refuse(entry, "shared_bytes", g.shared_bytes, "must not be negative");
  const int lds = (architecture == RocmArchitecture::gfx942 ? 64 : 160) << 10;
  at_most(entry, "shared_bytes", g.shared_bytes, lds - function.shared_bytes);
}

void launch(const Function& function, const char* entry, const Geometry& g, const RocmStream& stream, void** arguments) {
  if (stream.prepare_only) return prepare(function, entry, g, stream.architecture);
  const Driver& d = *function.driver;
  const CurrentDevice current(d, stream.device);
  check(d,
        d.ModuleLaunchKernel(function.handle, unsigned(g.grid[0]), unsigned(g.grid[1]), unsigned(g.grid[2]), unsigned(g.block[0]),
                             unsigned(g.block[1]), unsigned(g.block[2]), unsigned(g.shared_bytes), stream.handle, arguments,
                             nullptr),
        "launching kernel " + std::string(entry));
}

}  // namespace jaxator::rocm
