#include "src/runtime/cuda/driver.h"

#include <dlfcn.h>

#include <atomic>
#include <type_traits>

#include "jaxator/cuda.h"

namespace jaxator::cuda {
namespace {

Driver* open(const char* path) {
  auto* d = new Driver{};
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    d->missing = dlerror();
    return d;
  }
  d->library = library;
  auto get = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (function == nullptr) d->missing += std::string(d->missing.empty() ? path : "") + " lacks " + name + "; ";
  };
  get(d->GetErrorName, "cuGetErrorName");
  get(d->GetErrorString, "cuGetErrorString");
  get(d->Init, "cuInit");
  get(d->DeviceGetCount, "cuDeviceGetCount");
  get(d->DeviceGet, "cuDeviceGet");
  get(d->DeviceGetName, "cuDeviceGetName");
  get(d->DeviceGetAttribute, "cuDeviceGetAttribute");
  get(d->ModuleLoadDataEx, "cuModuleLoadDataEx");
  get(d->ModuleGetFunction, "cuModuleGetFunction");
  get(d->FuncGetAttribute, "cuFuncGetAttribute");
  get(d->FuncSetAttribute, "cuFuncSetAttribute");
  get(d->LaunchKernelEx, "cuLaunchKernelEx");
  get(d->MemsetD32Async, "cuMemsetD32Async");
  get(d->TensorMapEncodeTiled, "cuTensorMapEncodeTiled");
  d->FuncGetParamInfo = reinterpret_cast<decltype(d->FuncGetParamInfo)>(dlsym(library, "cuFuncGetParamInfo"));
  if (d->missing.empty())
    if (const Result result = d->Init(0)) {
      const char* name = "?";
      d->GetErrorName(result, &name);
      d->missing = std::string("cuInit: ") + name;
    }
  return d;
}

std::atomic<const Driver*>& current() {
  static std::atomic<const Driver*> driver{open("libcuda.so.1")};
  return driver;
}

}  // namespace

const Driver& driver() { return *current().load(std::memory_order_acquire); }

const Driver& require_driver() {
  const Driver& d = driver();
  if (!d.missing.empty()) throw UnsupportedError("the CUDA driver cannot be used: " + d.missing);
  return d;
}

// The one before stays open: other threads may be inside it.
void use_driver(const char* path) {
  Driver* driver = open(path);
  driver->before = current().load(std::memory_order_acquire);
  current().store(driver, std::memory_order_release);
}

void check(Result result, const std::string& what, const std::string& log) {
  if (result == 0) return;
  const char *name = "?", *text = "?";
  driver().GetErrorName(result, &name);
  driver().GetErrorString(result, &text);
  throw CudaError(what + ": " + name + " (" + text + ")" + (log.empty() ? "" : "\n" + log));
}

}  // namespace jaxator::cuda

namespace jaxator {

std::string cuda_problem() { return cuda::driver().missing; }

std::vector<CudaDevice> cuda_devices() {
  std::vector<CudaDevice> devices;
  const cuda::Driver& d = cuda::driver();
  if (!d.missing.empty()) return devices;
  int count = 0;
  cuda::check(d.DeviceGetCount(&count), "cuDeviceGetCount");
  for (int i = 0; i < count; i++) {
    CudaDevice& device = devices.emplace_back();
    int handle = 0;
    char name[128] = "";
    cuda::check(d.DeviceGet(&handle, i), "cuDeviceGet");
    cuda::check(d.DeviceGetName(name, sizeof name, handle), "cuDeviceGetName");
    device.name = name;
    cuda::check(d.DeviceGetAttribute(&device.major, cuda::kComputeCapabilityMajor, handle), "cuDeviceGetAttribute");
    cuda::check(d.DeviceGetAttribute(&device.minor, cuda::kComputeCapabilityMinor, handle), "cuDeviceGetAttribute");
    cuda::check(d.DeviceGetAttribute(&device.multiprocessors, cuda::kMultiprocessorCount, handle), "cuDeviceGetAttribute");
  }
  return devices;
}

}  // namespace jaxator
