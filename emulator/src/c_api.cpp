#include <exception>

#include "emulator/src/isa/table.h"
#include "emulator/src/json.h"
#include "jaxator/emulator_c.h"

namespace jaxator::emulator {
namespace {

thread_local std::string t_error, t_text;

using Code = std::shared_ptr<const CodeObject>;

/// The result, or a value that says failure.
template <class T, class Run> T guarded(T failure, const Run& run) {
  try {
    return run();
  } catch (const std::exception& error) {
    t_error = error.what();
    return failure;
  }
}

const char* keep(std::string text) {
  t_text = std::move(text);
  return t_text.c_str();
}

const CodeObject& code_of(void* handle) { return **static_cast<Code*>(handle); }
Device& device_of(void* handle) { return *static_cast<Device*>(handle); }

std::string lines(const std::vector<std::string>& all) {
  std::string text;
  for (const std::string& line : all) text += line + "\n";
  return text;
}

LaunchOptions options_of(const jaxator_emulator_options& from) {
  LaunchOptions options;
  for (int k = 0; k < 3; k++) options.grid[k] = from.grid[k], options.block[k] = from.block[k];
  options.dynamic_lds_bytes = from.dynamic_lds_bytes;
  options.checks = from.checks;
  options.seed = from.seed;
  options.time_limit_s = from.time_limit_s;
  options.threads = from.threads;
  options.traced_workgroup = from.traced_workgroup;
  options.first_workgroup = from.first_workgroup;
  options.workgroups = from.workgroups;
  return options;
}

}  // namespace
}  // namespace jaxator::emulator

using namespace jaxator::emulator;

extern "C" {

const char* jaxator_emulator_error(void) { return t_error.c_str(); }

void* jaxator_emulator_load(const void* image, size_t bytes) {
  return guarded<void*>(nullptr, [&] { return new Code(CodeObject::load({static_cast<const uint8_t*>(image), bytes})); });
}
void jaxator_emulator_unload(void* code) { delete static_cast<Code*>(code); }

const char* jaxator_emulator_describe(void* code) {
  return guarded<const char*>(nullptr, [&] { return keep(to_json(code_of(code))); });
}
const char* jaxator_emulator_disassembly(void* code, const char* kernel) {
  return guarded<const char*>(nullptr, [&] { return keep(code_of(code).disassembly(kernel)); });
}
const char* jaxator_emulator_unknown_instructions(void* code, const char* kernel) {
  return guarded<const char*>(nullptr, [&] { return keep(lines(code_of(code).unknown_instructions(kernel))); });
}
const char* jaxator_emulator_instructions(void) { return keep(lines(instruction_table().names())); }

void* jaxator_emulator_device(const char* architecture) {
  return guarded<void*>(nullptr, [&] { return new Device(architecture_of(architecture)); });
}
void jaxator_emulator_close_device(void* device) { delete static_cast<Device*>(device); }

int jaxator_emulator_map(void* device, void* address, size_t bytes, const char* name, int initialised) {
  return guarded(-1, [&] {
    device_of(device).map(address, bytes, name, initialised != 0);
    return 0;
  });
}
int jaxator_emulator_unmap(void* device, void* address) {
  return guarded(-1, [&] {
    device_of(device).unmap(address);
    return 0;
  });
}
void* jaxator_emulator_allocate(void* device, size_t bytes, const char* name) {
  return guarded<void*>(nullptr, [&] { return device_of(device).allocate(bytes, name); });
}
int jaxator_emulator_free(void* device, void* address) {
  return guarded(-1, [&] {
    device_of(device).free(address);
    return 0;
  });
}
int jaxator_emulator_initialise(void* device, const void* address, size_t bytes) {
  return guarded(-1, [&] {
    device_of(device).initialise(address, bytes);
    return 0;
  });
}
int64_t jaxator_emulator_uninitialised_bytes(void* device, const void* address, size_t bytes) {
  return guarded<int64_t>(-1, [&] { return static_cast<int64_t>(device_of(device).uninitialised_bytes(address, bytes)); });
}

const char* jaxator_emulator_launch(void* device, void* code, const char* kernel, const void* arguments, size_t argument_bytes,
                                    const jaxator_emulator_options* options) {
  return guarded<const char*>(nullptr, [&] {
    return keep(to_json(device_of(device).launch(code_of(code), kernel, {static_cast<const uint8_t*>(arguments), argument_bytes},
                                                 options_of(*options))));
  });
}

}  // extern "C"
