#include "src/runtime/rocm/driver.h"

#include <dlfcn.h>

#include <atomic>
#include <type_traits>

namespace jaxator::rocm {
namespace {

template <class Function> void find(void* library, Function& function, const char* name) {
  function = reinterpret_cast<Function>(dlsym(library, name));
}

void* open_first(std::initializer_list<std::string> paths, std::string* error) {
  for (const std::string& path : paths) {
    if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    *error += (error->empty() ? "" : "; ") + std::string(dlerror());
  }
  return nullptr;
}

Driver* open(std::initializer_list<std::string> paths) {
  auto* d = new Driver{};
  std::string missing;
  void* library = open_first(paths, &missing);
  if (library == nullptr) {
    d->missing = missing;
    return d;
  }
  auto get = [&](auto& function, const char* name) {
    find(library, function, name);
    if (function == nullptr) d->missing += std::string(d->missing.empty() ? *paths.begin() : "") + " lacks " + name + "; ";
  };
  get(d->GetErrorName, "hipGetErrorName");
  get(d->GetErrorString, "hipGetErrorString");
  get(d->Init, "hipInit");
  get(d->GetDeviceCount, "hipGetDeviceCount");
  get(d->GetDevice, "hipGetDevice");
  get(d->SetDevice, "hipSetDevice");
  get(d->GetDevicePropertiesR0600, "hipGetDevicePropertiesR0600");
  get(d->DeviceGetAttribute, "hipDeviceGetAttribute");
  get(d->ModuleLoadData, "hipModuleLoadData");
  get(d->ModuleGetFunction, "hipModuleGetFunction");
  get(d->FuncGetAttribute, "hipFuncGetAttribute");
  get(d->ModuleLaunchKernel, "hipModuleLaunchKernel");
  find(library, d->Report, "jaxator_emulator_report");
  find(library, d->Map, "jaxator_emulator_map");
  find(library, d->Unmap, "jaxator_emulator_unmap");
  if (d->missing.empty())
    if (const Result result = d->Init(0)) d->missing = std::string("hipInit: ") + d->GetErrorName(result);
  return d;
}

std::atomic<const Driver*>& current() {
  // The functions and structs used are the same in these versions.
  static std::atomic<const Driver*> driver{open({"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"})};
  return driver;
}

const Driver& emulator() {
  static const Driver* driver = [] {
    Dl_info info;
    std::string path = "libjaxator_hip_emulator.so";
    if (dladdr(reinterpret_cast<const void*>(&require_driver), &info) != 0 && info.dli_fname != nullptr) {
      const std::string own = info.dli_fname;
      path = own.substr(0, own.rfind('/') + 1) + path;
    }
    return open({path});
  }();
  return *driver;
}

}  // namespace

const Driver& driver(bool emulated) { return emulated ? emulator() : *current().load(std::memory_order_acquire); }

const Driver& require_driver(bool emulated) {
  const Driver& d = driver(emulated);
  if (!d.missing.empty()) throw UnsupportedError((emulated ? "the emulator" : "HIP") + (" cannot be used: " + d.missing));
  return d;
}

// The one before stays open: other threads may be inside it.
void use_driver(const char* path) {
  Driver* driver = open({path});
  driver->before = current().load(std::memory_order_acquire);
  current().store(driver, std::memory_order_release);
}

void check(const Driver& driver, Result result, const std::string& what) {
  if (result == 0) return;
  const std::string report = driver.Report != nullptr ? driver.Report() : "";
  throw RocmError(what + ": " + driver.GetErrorName(result) + " (" + driver.GetErrorString(result) + ")" +
                  (report.empty() ? "" : "\n" + report));
}

CurrentDevice::CurrentDevice(const Driver& driver, int device) : driver_(driver) {
  check(driver, driver.GetDevice(&before_), "hipGetDevice");
  if (before_ == device) return;
  check(driver, driver.SetDevice(device), "hipSetDevice(" + std::to_string(device) + ")");
  changed_ = true;
}

CurrentDevice::~CurrentDevice() {
  if (changed_) driver_.SetDevice(before_);
}

}  // namespace jaxator::rocm

namespace jaxator {

RocmArchitecture rocm_architecture(const std::string& name) {
  const std::string plain = name.substr(0, name.find(':'));
  for (RocmArchitecture architecture : {RocmArchitecture::gfx942, RocmArchitecture::gfx950})
    if (plain == name_of(architecture)) return architecture;
  throw UnsupportedError("architecture=" + plain + ": this build has kernels for gfx942, gfx950");
}

RocmArchitecture rocm_device_architecture(int device) {
  constexpr int kDevices = 64;
  static std::atomic<const rocm::Driver*> asked[kDevices] = {};
  static std::atomic<RocmArchitecture> known[kDevices] = {};
  const rocm::Driver& d = rocm::require_driver();
  const bool cached = device >= 0 && device < kDevices;
  if (cached && asked[device].load(std::memory_order_acquire) == &d) return known[device].load(std::memory_order_relaxed);
  rocm::DeviceProperties properties{};
  rocm::check(d, d.GetDevicePropertiesR0600(&properties, device), "properties of device " + std::to_string(device));
  const RocmArchitecture architecture = rocm_architecture(properties.architecture);
  if (cached) {
    known[device].store(architecture, std::memory_order_relaxed);
    asked[device].store(&d, std::memory_order_release);
  }
  return architecture;
}

std::string rocm_problem(bool emulated) { return rocm::driver(emulated).missing; }

std::vector<RocmDevice> rocm_devices(bool emulated) {
  std::vector<RocmDevice> devices;
  const rocm::Driver& d = rocm::driver(emulated);
  if (!d.missing.empty()) return devices;
  int count = 0;
  rocm::check(d, d.GetDeviceCount(&count), "hipGetDeviceCount");
  for (int i = 0; i < count; i++) {
    rocm::DeviceProperties properties{};
    rocm::check(d, d.GetDevicePropertiesR0600(&properties, i), "hipGetDeviceProperties");
    const std::string architecture = properties.architecture;
    RocmDevice& device = devices.emplace_back(properties.name, architecture.substr(0, architecture.find(':')), 0);
    rocm::check(d, d.DeviceGetAttribute(&device.compute_units, rocm::kMultiprocessorCount, i), "hipDeviceGetAttribute");
  }
  return devices;
}

}  // namespace jaxator
