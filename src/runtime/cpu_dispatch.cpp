/// @file
/// Opens the kernel library of one instruction set, from the folder this library lies in.
#include <dlfcn.h>

#include <atomic>
#include <mutex>

#include "jaxator/cpu.h"
#include "src/runtime/cpu_kernels.h"

namespace jaxator {
namespace {

constexpr const char* kNames[kCpuIsaCount] = {"x86-64-v3", "x86-64-v4", "x86-64-v4-bf16"};
constexpr const char* kFiles[kCpuIsaCount] = {"libjaxator_cpu_v3.so", "libjaxator_cpu_v4.so", "libjaxator_cpu_v4_bf16.so"};

struct Slot {
  std::once_flag once;
  const CpuKernels* kernels = nullptr;
  std::string error;
};

Slot slots[kCpuIsaCount];
constexpr int kByModel = -1;
std::atomic<int> forced{kByModel};

std::string library_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&cpu_features), &info) == 0 || info.dli_fname == nullptr) return "";
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

const CpuKernels* open(CpuIsa isa, std::string* error) {
  Slot& slot = slots[static_cast<int>(isa)];
  std::call_once(slot.once, [&] {
    const std::string path = library_folder() + kFiles[static_cast<int>(isa)];
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      slot.error = dlerror();
      return;
    }
    auto entry = reinterpret_cast<CpuKernelsFn>(dlsym(library, "jaxator_cpu_kernels"));
    if (entry == nullptr) {
      slot.error = path + " has no symbol jaxator_cpu_kernels";
      return;
    }
    slot.kernels = entry();
  });
  if (error != nullptr) *error = slot.error;
  return slot.kernels;
}

bool runs(CpuIsa isa) {
  const CpuFeatures& f = cpu_features();
  return isa == CpuIsa::v3 ? f.v3 : isa == CpuIsa::v4 ? f.v4 : f.bf16_vnni;
}

}  // namespace

const char* name_of(CpuIsa isa) { return kNames[static_cast<int>(isa)]; }

std::vector<CpuIsa> cpu_supported() {
  std::vector<CpuIsa> result;
  for (int i = 0; i < kCpuIsaCount; i++)
    if (runs(static_cast<CpuIsa>(i))) result.push_back(static_cast<CpuIsa>(i));
  return result;
}

CpuIsa cpu_isa() {
  const int choice = forced.load(std::memory_order_relaxed);
  if (choice != kByModel) return static_cast<CpuIsa>(choice);
  const CpuFeatures& f = cpu_features();
  if (f.bf16_vnni) return CpuIsa::v4_bf16;
  if (f.v4) return CpuIsa::v4;
  if (f.v3) return CpuIsa::v3;
  throw UnsupportedError("cpu=\"" + f.brand + "\": the kernels need AVX2, FMA and F16C (x86-64-v3)");
}

void cpu_force_isa(CpuIsa isa) {
  if (!runs(isa)) throw UnsupportedError(std::string("isa=") + name_of(isa) + ": not supported by this CPU");
  forced.store(static_cast<int>(isa), std::memory_order_relaxed);
}

void cpu_reset_isa() { forced.store(kByModel, std::memory_order_relaxed); }

const CpuKernels& cpu_kernels() {
  const CpuIsa isa = cpu_isa();
  std::string error;
  const CpuKernels* kernels = open(isa, &error);
  if (kernels == nullptr) throw UnsupportedError(std::string("kernels for ") + name_of(isa) + " cannot be opened: " + error);
  return *kernels;
}

}  // namespace jaxator
