#include "src/flight/target.h"

namespace jaxator::flight {
namespace {

// Shared memory on x86 is an array on the stack that stays in the second-level cache. PTX 8.0 is the first with all of sm_90a.
constexpr Target kTargets[] = {
    {"x86-64", Family::x86, 32, 256 << 10, "x86_64-unknown-linux-gnu", ""},
    {"gfx942", Family::cdna, 64, 64 << 10, "amdgcn-amd-amdhsa", ""},
    {"gfx950", Family::cdna, 64, 160 << 10, "amdgcn-amd-amdhsa", ""},
    {"sm_90a", Family::nvidia, 32, 227 << 10, "nvptx64-nvidia-cuda", "+ptx80"},
};

}  // namespace

const Target* find_target(llvm::StringRef name) {
  for (const Target& target : kTargets)
    if (name == target.name) return &target;
  return nullptr;
}

const char* target_names() { return "x86-64, gfx942, gfx950, sm_90a"; }

}  // namespace jaxator::flight
