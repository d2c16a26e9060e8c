/// @file
/// Modules, their functions, and launches.
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "emulator/hip/state.h"

using jaxator::emulator::CodeObject;
using jaxator::emulator::KernelInfo;
namespace hip = jaxator::hip_emulator;

struct ihipModuleSymbol_t {
  std::shared_ptr<const CodeObject> code;
  std::shared_ptr<const std::vector<uint8_t>> image;
  const KernelInfo* kernel;
  int device;
};

struct ihipModule_t {
  std::shared_ptr<const CodeObject> code;
  std::shared_ptr<const std::vector<uint8_t>> image;
  int device;
  std::map<std::string, std::unique_ptr<ihipModuleSymbol_t>, std::less<>> functions;
};

namespace jaxator::hip_emulator {
namespace {

/// Handles that are alive; everything else is refused instead of being followed.
struct Modules {
  std::mutex mutex;
  std::map<hipModule_t, std::unique_ptr<ihipModule_t>> modules;
  std::map<hipFunction_t, hipModule_t> functions;
};

Modules& modules() {
  static auto* modules = new Modules;
  return *modules;
}

struct Settings {
  std::atomic<unsigned> checks{emulator::kWaits | emulator::kRaces | emulator::kPoison};
  std::atomic<uint64_t> seed{0};
  std::atomic<int> threads{0};
  std::atomic<double> time_limit_s{0};
  std::atomic<uint64_t> first_workgroup{0}, workgroups{0};
};
Settings settings;

template <class T> T read_at(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// HIP is given an address alone: the length of an ELF file is where its section headers end, which linkers put last.
std::span<const uint8_t> elf_at(const void* image) {
  const auto* bytes = static_cast<const uint8_t*>(image);
  require(bytes != nullptr && std::memcmp(bytes,
                                          "\x7f"
                                          "ELF\x02\x01",
                                          6) == 0,
          hipErrorInvalidImage, "the image is no 64-bit ELF file");
  const auto sections = read_at<uint64_t>(bytes + 40);
  const auto section_bytes = read_at<uint16_t>(bytes + 58), section_count = read_at<uint16_t>(bytes + 60);
  constexpr uint64_t kMost = uint64_t{1} << 32;
  require(sections >= 64 && sections < kMost && section_count > 0, hipErrorInvalidImage, "the ELF file has no section headers");
  return {bytes, sections + uint64_t{section_bytes} * section_count};
}

std::shared_ptr<const CodeObject> load(const void* image, int index) {
  const std::span<const uint8_t> elf = elf_at(image);
  std::shared_ptr<const CodeObject> code;
  try {
    code = CodeObject::load(elf);
  } catch (const emulator::Error& error) {
    throw Failure(hipErrorInvalidImage, error.what());
  }
  const emulator::Architecture has = code->architecture(), needs = device(index).architecture();
  require(has == needs, hipErrorNoBinaryForGpu,
          std::string("the code object is for ") + emulator::name(has) + ", device " + std::to_string(index) + " is a " +
              emulator::name(needs));
  return code;
}

ihipModuleSymbol_t function_of(hipFunction_t handle) {
  Modules& m = modules();
  std::lock_guard lock(m.mutex);
  require(m.functions.contains(handle), hipErrorInvalidHandle, "the function is not one of a loaded module");
  return *handle;
}

/// Arguments as the kernel's metadata lays them out, from their addresses or from the block that `extra` names.
std::vector<uint8_t> arguments_of(const KernelInfo& kernel, void** arguments, void** extra) {
  std::vector<uint8_t> block(kernel.argument_bytes);
  if (extra != nullptr) {
    const void* from = nullptr;
    size_t bytes = 0;
    for (; *extra != HIP_LAUNCH_PARAM_END; extra += 2) {
      if (*extra == HIP_LAUNCH_PARAM_BUFFER_POINTER) from = extra[1];
      if (*extra == HIP_LAUNCH_PARAM_BUFFER_SIZE) bytes = *static_cast<size_t*>(extra[1]);
    }
    require(from != nullptr && bytes <= block.size(), hipErrorInvalidValue,
            "arguments of " + std::to_string(bytes) + " bytes: the kernel takes " + std::to_string(block.size()));
    std::memcpy(block.data(), from, bytes);
    return block;
  }
  for (size_t i = 0; i < kernel.parameters.size(); i++) {
    const emulator::Parameter& parameter = kernel.parameters[i];
    require(arguments != nullptr && arguments[i] != nullptr, hipErrorInvalidValue,
            "argument " + std::to_string(i) + " is missing");
    require(uint64_t{parameter.offset} + parameter.bytes <= block.size(), hipErrorInvalidImage,
            "the kernel's metadata contradict themselves");
    std::memcpy(block.data() + parameter.offset, arguments[i], parameter.bytes);
  }
  return block;
}

void launch(const ihipModuleSymbol_t& function, const emulator::LaunchOptions& options, void** arguments, void** extra) {
  const std::vector<uint8_t> block = arguments_of(*function.kernel, arguments, extra);
  record({device(function.device), *function.image, block, function.kernel->name, options});
  const emulator::Report report = device(function.device).launch(*function.code, function.kernel->name, block, options);
  if (!report.clean()) throw Failure(hipErrorLaunchFailure, report.text());
}

}  // namespace
}  // namespace jaxator::hip_emulator

void jaxator_emulator_configure(unsigned checks, unsigned long long seed, int threads, double time_limit_s) {
  hip::settings.checks = checks;
  hip::settings.seed = seed;
  hip::settings.threads = threads;
  hip::settings.time_limit_s = time_limit_s;
}

void jaxator_emulator_run_part(unsigned long long first, unsigned long long count) {
  hip::settings.first_workgroup = first;
  hip::settings.workgroups = count;
}

hipError_t hipModuleLoadData(hipModule_t* module, const void* image) {
  return hip::guarded([&] {
    hip::require(module != nullptr, hipErrorInvalidValue, "module is null");
    const int index = hip::this_thread().device;
    auto code = hip::load(image, index);
    const std::span<const uint8_t> elf = hip::elf_at(image);
    auto loaded = std::make_unique<ihipModule_t>(std::move(code),
                                                 std::make_shared<const std::vector<uint8_t>>(elf.begin(), elf.end()), index);
    hip::Modules& m = hip::modules();
    std::lock_guard lock(m.mutex);
    *module = loaded.get();
    m.modules[*module] = std::move(loaded);
  });
}

hipError_t hipModuleUnload(hipModule_t module) {
  return hip::guarded([&] {
    hip::Modules& m = hip::modules();
    std::lock_guard lock(m.mutex);
    hip::require(m.modules.contains(module), hipErrorInvalidHandle, "the module is not loaded");
    std::erase_if(m.functions, [&](const auto& entry) { return entry.second == module; });
    m.modules.erase(module);
  });
}

hipError_t hipModuleGetFunction(hipFunction_t* function, hipModule_t module, const char* name) {
  return hip::guarded([&] {
    hip::require(function != nullptr && name != nullptr, hipErrorInvalidValue, "function or name is null");
    hip::Modules& m = hip::modules();
    std::lock_guard lock(m.mutex);
    hip::require(m.modules.contains(module), hipErrorInvalidHandle, "the module is not loaded");
    auto& found = module->functions[name];
    if (found == nullptr) try {
        found = std::make_unique<ihipModuleSymbol_t>(module->code, module->image, &module->code->kernel(name), module->device);
      } catch (const jaxator::emulator::Error& error) {
        module->functions.erase(name);
        throw hip::Failure(hipErrorNotFound, error.what());
      }
    *function = found.get();
    m.functions[*function] = module;
  });
}

hipError_t hipFuncGetAttribute(int* value, int attribute, hipFunction_t handle) {
  return hip::guarded([&] {
    const ihipModuleSymbol_t function = hip::function_of(handle);
    const KernelInfo& kernel = *function.kernel;
    switch (attribute) {
      case HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = static_cast<int>(kernel.max_threads);
        return;
      case HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        *value = static_cast<int>(kernel.lds_bytes);
        return;
      case HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
        *value = static_cast<int>(kernel.scratch_bytes);
        return;
      case HIP_FUNC_ATTRIBUTE_NUM_REGS:
        *value = static_cast<int>(kernel.vector_registers);
        return;
      default:
        throw hip::Failure(hipErrorInvalidValue, "attribute=" + std::to_string(attribute) + ": the emulator does not know it");
    }
  });
}

hipError_t hipModuleLaunchKernel(hipFunction_t handle, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                                 unsigned block_y, unsigned block_z, unsigned shared_bytes, hipStream_t stream, void** arguments,
                                 void** extra) {
  return hip::guarded([&] {
    const ihipModuleSymbol_t function = hip::function_of(handle);
    const int index = hip::device_of(stream);
    hip::require(function.device == index, hipErrorInvalidHandle,
                 "kernel " + function.kernel->name + " was loaded on device " + std::to_string(function.device) +
                     ", the launch is on device " + std::to_string(index));
    hip::launch(function,
                {.grid = {grid_x, grid_y, grid_z},
                 .block = {block_x, block_y, block_z},
                 .dynamic_lds_bytes = shared_bytes,
                 .checks = hip::settings.checks,
                 .seed = hip::settings.seed++,
                 .threads = hip::settings.threads,
                 .time_limit_s = hip::settings.time_limit_s,
                 .first_workgroup = hip::settings.first_workgroup,
                 .workgroups = hip::settings.workgroups},
                arguments, extra);
  });
}
