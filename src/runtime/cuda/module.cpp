#include "src/runtime/cuda/module.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <tuple>

#include "src/runtime/cuda/driver.h"

namespace jaxator::cuda {
namespace {

using Key = std::tuple<std::string, std::string, int>;  // hash, entry, device
using KeyView = std::tuple<std::string_view, std::string_view, int>;

/// Both caches, keyed by contents and device. Reading is shared: every execution looks here, loading happens once.
struct Cache {
  std::shared_mutex mutex;
  std::map<std::pair<std::string, int>, void*> modules;
  std::map<Key, Function, std::less<>> functions;  // nodes never move
  LoadTimes times;
};

Cache& cache() {
  static auto* cache = new Cache;  // outlives every thread that may still launch when the process ends
  return *cache;
}

Function* find(const KeyView& key) {
  Cache& c = cache();
  std::shared_lock lock(c.mutex);
  const auto it = c.functions.find(key);
  return it == c.functions.end() ? nullptr : &it->second;
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
  check(result, "loading " + name, log);
  throw UnsupportedError("this build has no CUDA kernels for " + name);
}

/// What the driver knows of a function, so that a launch can be checked before it is made.
void read_attributes(Function& function, const std::string& entry) {
  const std::string what = "reading attributes of kernel " + entry;
  check(driver().FuncGetAttribute(&function.max_threads, kMaxThreadsPerBlock, function.handle), what);
  for (int i = 0; i < 3; i++)
    check(driver().FuncGetAttribute(&function.cluster[i], kRequiredClusterWidth + i, function.handle), what);
  if (driver().FuncGetParamInfo == nullptr) return;
  size_t offset = 0, bytes = 0;
  std::vector<int>& sizes = function.parameter_bytes.emplace();
  while (driver().FuncGetParamInfo(function.handle, sizes.size(), &offset, &bytes) == 0) sizes.push_back(static_cast<int>(bytes));
}

Function& load(const KeyView& view, std::initializer_list<std::string_view> blobs, const std::string& name) {
  Cache& c = cache();
  const Key key(view);
  const auto& [hash, entry, device] = key;
  std::unique_lock lock(c.mutex);
  if (auto it = c.functions.find(key); it != c.functions.end()) return it->second;
  const auto start = std::chrono::steady_clock::now();
  void* module = load_first(hash, blobs, name, device);
  void* handle = nullptr;
  check(driver().ModuleGetFunction(&handle, module, entry.c_str()), "looking for kernel " + entry + " in " + name);
  Function& function = c.functions[key];
  function.handle = handle;
  try {
    read_attributes(function, entry);
  } catch (...) {
    c.functions.erase(key);
    throw;
  }
  const int64_t taken = std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
  c.times = {c.times.functions + 1, c.times.nanoseconds + taken, std::max(c.times.most, taken)};
  return function;
}

}  // namespace

Function& Kernel::on(int device, bool load) const {
  const bool cached = device >= 0 && device < kDevices;
  if (cached)
    if (Function* function = functions_[device].load(std::memory_order_acquire)) return *function;
  const KeyView key(image_.hash, entry_, device);
  Function* function = find(key);
  if (function == nullptr && !load)
    throw CudaError("kernel " + std::string(entry_) + " is not loaded on device " + std::to_string(device) +
                    ": it was not prepared");
  // A cubin first: it loads in 0.1 ms. An older driver than the assembler that made it refuses it and takes the PTX.
  const std::string_view cubin(image_.cubin, image_.cubin_end - image_.cubin), ptx(image_.ptx, image_.ptx_end - image_.ptx);
  if (function == nullptr) function = &cuda::load(key, {cubin, ptx}, "the kernels " + std::string(image_.name));
  if (cached) functions_[device].store(function, std::memory_order_release);
  return *function;
}

LoadTimes load_times() {
  std::shared_lock lock(cache().mutex);
  return cache().times;
}

Function* find_function(std::string_view hash, std::string_view entry, int device) { return find({hash, entry, device}); }

Function& load_function(std::string_view hash, const std::string& blob, std::string_view entry, int device) {
  return load({hash, entry, device}, {blob}, "the blob");
}

}  // namespace jaxator::cuda
