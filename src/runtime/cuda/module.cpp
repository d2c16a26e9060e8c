#include "src/runtime/cuda/module.h"

#include <map>
#include <mutex>
#include <shared_mutex>
#include <tuple>

#include "src/runtime/cuda/driver.h"

namespace jaxator::cuda {
namespace {

/// Both caches, keyed by contents and device. Reading is shared: every execution looks here, loading happens once.
struct Cache {
  std::shared_mutex mutex;
  std::map<std::pair<std::string, int>, void*> modules;
  std::map<std::tuple<std::string, std::string, int>, Function> functions;  // nodes never move
};

Cache& cache() {
  static auto* cache = new Cache;  // outlives every thread that may still launch when the process ends
  return *cache;
}

Result load_module(void** module, const std::string& blob, std::string& log) {
  char text[8192] = "";
  int options[] = {kErrorLogBuffer, kErrorLogBufferBytes};
  void* values[] = {text, reinterpret_cast<void*>(sizeof text)};
  const Result result = driver().ModuleLoadDataEx(module, blob.c_str(), 2, options, values);
  log = text;
  return result;
}

void* load_first(const std::string& hash, std::initializer_list<std::string_view> blobs, const std::string& name, int device) {
  require_driver();
  void*& module = cache().modules[{hash, device}];
  if (module != nullptr) return module;
  Result result = 0;
  std::string log;
  for (std::string_view blob : blobs) {
    if (blob.empty()) continue;
    result = load_module(&module, std::string(blob), log);
    if (result == 0) return module;
    module = nullptr;
  }
  cache().modules.erase({hash, device});
  check(result, "loading the kernels " + name, log);
  throw UnsupportedError("this build has no CUDA kernels for " + name);
}

Function& find(const std::string& hash, std::initializer_list<std::string_view> blobs, const std::string& name,
               const std::string& entry, int device, bool load) {
  Cache& c = cache();
  const auto key = std::make_tuple(hash, entry, device);
  {
    std::shared_lock lock(c.mutex);
    if (auto it = c.functions.find(key); it != c.functions.end()) return it->second;
  }
  if (!load) throw CudaError("kernel " + entry + " is not loaded on device " + std::to_string(device) + ": it was not prepared");
  std::unique_lock lock(c.mutex);
  if (auto it = c.functions.find(key); it != c.functions.end()) return it->second;
  void* module = load_first(hash, blobs, name, device);
  void* handle = nullptr;
  check(driver().ModuleGetFunction(&handle, module, entry.c_str()), "looking for kernel " + entry + " in " + name);
  int threads = 0;
  check(driver().FuncGetAttribute(&threads, kMaxThreadsPerBlock, handle), "reading attributes of kernel " + entry);
  Function& function = c.functions[key];
  function.handle = handle, function.max_threads = threads;
  return function;
}

}  // namespace

Function& Kernel::on(int device, bool load) const {
  const bool cached = device >= 0 && device < kDevices;
  if (cached)
    if (Function* function = functions_[device].load(std::memory_order_acquire)) return *function;
  // A cubin first: it loads in 0.1 ms. An older driver than the assembler that made it refuses it and takes the PTX.
  const std::string_view cubin(image_.cubin, image_.cubin_end - image_.cubin), ptx(image_.ptx, image_.ptx_end - image_.ptx);
  Function& function = find(image_.hash, {cubin, ptx}, image_.name, entry_, device, load);
  if (cached) functions_[device].store(&function, std::memory_order_release);
  return function;
}

Function& find_function(std::string_view hash, std::string_view blob, const std::string& entry, int device, bool load) {
  return find(std::string(hash), {blob}, "given by the caller", entry, device, load);
}

}  // namespace jaxator::cuda
