#include "src/runtime/rocm/module.h"

#include <map>
#include <mutex>
#include <shared_mutex>
#include <tuple>

namespace jaxator::rocm {
namespace {

using Key = std::tuple<const Driver*, std::string, std::string, int>;  // driver, hash, entry, device
using KeyView = std::tuple<const Driver*, std::string_view, std::string_view, int>;

/// Both caches. Reading is shared: every execution looks here, loading happens once.
struct Cache {
  std::shared_mutex mutex;
  std::map<std::tuple<const Driver*, std::string, int>, void*> modules;
  std::map<Key, Function, std::less<>> functions;  // nodes never move
};

Cache& cache() {
  static auto* cache = new Cache;  // outlives every thread that may still launch when the process ends
  return *cache;
}

const Function* find(const KeyView& key) {
  Cache& c = cache();
  std::shared_lock lock(c.mutex);
  const auto it = c.functions.find(key);
  return it == c.functions.end() ? nullptr : &it->second;
}

void* load_module(const Key& key, std::string_view blob, const std::string& name) {
  const auto& [driver, hash, entry, device] = key;
  void*& module = cache().modules[{driver, hash, device}];
  if (module != nullptr) return module;
  // HIP takes the length from the ELF header.
  void* loaded = nullptr;
  check(*driver, driver->ModuleLoadData(&loaded, blob.data()), "loading " + name);
  return module = loaded;
}

const Function& load(const KeyView& view, std::string_view blob, const std::string& name) {
  Cache& c = cache();
  const Key key(view);
  const auto& [driver, hash, entry, device] = key;
  if (blob.empty()) throw UnsupportedError("this build has no ROCm kernels for " + name);
  std::unique_lock lock(c.mutex);
  if (auto it = c.functions.find(key); it != c.functions.end()) return it->second;
  const CurrentDevice current(*driver, device);
  void* module = load_module(key, blob, name);
  Function function{.driver = driver};
  check(*driver, driver->ModuleGetFunction(&function.handle, module, entry.c_str()),
        "looking for kernel " + entry + " in " + name);
  const std::string what = "reading attributes of kernel " + entry;
  check(*driver, driver->FuncGetAttribute(&function.max_threads, kMaxThreadsPerBlock, function.handle), what);
  check(*driver, driver->FuncGetAttribute(&function.shared_bytes, kSharedBytes, function.handle), what);
  return c.functions.emplace(key, function).first->second;
}

}  // namespace

const Function& Kernel::on(const RocmStream& stream) const {
  const Driver& driver = require_driver(stream.emulated);
  const bool cached = stream.device >= 0 && stream.device < kDevices;
  std::atomic<const Function*>* slot = cached ? &functions_[stream.emulated][stream.device] : nullptr;
  if (slot != nullptr)
    if (const Function* function = slot->load(std::memory_order_acquire); function != nullptr && function->driver == &driver)
      return *function;
  const Image::Code& code = image_.code[static_cast<int>(stream.architecture)];
  const KeyView key(&driver, code.hash, entry_, stream.device);
  const Function* function = find(key);
  if (function == nullptr && !stream.prepare_only)
    throw RocmError("kernel " + std::string(entry_) + " is not loaded on device " + std::to_string(stream.device) +
                    ": it was not prepared");
  const std::string_view blob(code.begin, code.end - code.begin);
  if (function == nullptr)
    function = &load(key, blob, "the kernels " + std::string(image_.name) + " for " + name_of(stream.architecture));
  if (slot != nullptr) slot->store(function, std::memory_order_release);
  return *function;
}

const Function* find_function(std::string_view hash, std::string_view entry, const RocmStream& stream) {
  return find({&require_driver(stream.emulated), hash, entry, stream.device});
}

const Function& load_function(std::string_view hash, const std::string& blob, std::string_view entry, const RocmStream& stream) {
  return load({&require_driver(stream.emulated), hash, entry, stream.device}, blob, "the blob");
}

}  // namespace jaxator::rocm
