/// @file
/// jaxator-emulate: one launch of a kernel, and a report.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>

#include "emulator/command/options.h"

namespace jaxator::emulator::command {
namespace {

constexpr int kClean = 0, kFound = 1, kRefused = 2;

std::string name_of_kernel(const CodeObject& code, const Options& options) {
  if (!options.kernel.empty()) return options.kernel;
  const std::vector<KernelInfo> kernels = code.kernels();
  if (kernels.size() == 1) return kernels[0].name;
  std::string names;
  for (const KernelInfo& info : kernels) names += " " + info.name;
  throw Error("the code object has " + std::to_string(kernels.size()) + " kernels: choose one with --kernel:" + names);
}

void list(const CodeObject& code) {
  printf("%s\n", name(code.architecture()));
  for (const KernelInfo& info : code.kernels()) {
    printf("%s: %u vector, %u accumulation, %u scalar registers; %u bytes of LDS%s, %u of scratch; up to %u threads\n",
           info.name.c_str(), info.vector_registers, info.accumulation_registers, info.scalar_registers, info.lds_bytes,
           info.dynamic_lds ? " and more at launch" : "", info.scratch_bytes, info.max_threads);
    if (info.vector_spills + info.scalar_spills > 0)
      printf("  spilled: %u vector, %u scalar registers\n", info.vector_spills, info.scalar_spills);
    for (const Parameter& parameter : info.parameters)
      printf("  %-16s %2u bytes at %-4u %s\n", parameter.name.empty() ? "(unnamed)" : parameter.name.c_str(), parameter.bytes,
             parameter.offset, parameter.type.c_str());
    const std::vector<std::string> unknown = code.unknown_instructions(info.name);
    for (const std::string& mnemonic : unknown) printf("  not implemented: %s\n", mnemonic.c_str());
  }
}

void fill(const Argument& argument, uint8_t* memory, uint32_t seed) {
  if (argument.fill == Fill::random) {
    std::mt19937 random(seed);
    std::generate_n(memory, *argument.bytes, [&] { return static_cast<uint8_t>(random()); });
  } else if (argument.fill == Fill::file) {
    std::ifstream file(argument.path, std::ios::binary);
    file.read(reinterpret_cast<char*>(memory), static_cast<std::streamsize>(*argument.bytes));
    if (!file) throw Error("--arg " + argument.text + ": the file cannot be read");
  }
}

/// The buffers that the arguments ask for, and the block of arguments where the kernel's parameters are.
class Launch {
 public:
  Launch(const CodeObject& code, const KernelInfo& kernel, const Options& options)
      : device_(code.architecture()), block_(kernel.argument_bytes), memory_(options.arguments.size()) {
    const std::vector<Parameter>& parameters = kernel.parameters;
    if (options.arguments.size() != parameters.size())
      throw Error(kernel.name + " takes " + std::to_string(parameters.size()) + " arguments, " +
                  std::to_string(options.arguments.size()) + " were given (see --list)");
    for (size_t k = 0; k < parameters.size(); k++) {
      const Argument& argument = options.arguments[k];
      const std::vector<uint8_t> value = argument.bytes ? make_buffer(argument, k, parameters[k].name) : argument.value;
      if (value.size() != parameters[k].bytes)
        throw Error("argument " + std::to_string(k) + " (" + argument.text + ") has " + std::to_string(value.size()) +
                    " bytes, parameter " + parameters[k].name + " has " + std::to_string(parameters[k].bytes));
      if (parameters[k].offset + value.size() > block_.size()) block_.resize(parameters[k].offset + value.size());
      std::ranges::copy(value, block_.begin() + parameters[k].offset);
    }
  }

  Report run(const CodeObject& code, const std::string& kernel, const Options& options) {
    Report report = device_.launch(code, kernel, block_, options.launch);
    for (const Dump& dump : options.dumps) {
      std::ofstream file(dump.path, std::ios::binary);
      file.write(static_cast<const char*>(memory_[dump.argument]),
                 static_cast<std::streamsize>(*options.arguments[dump.argument].bytes));
      if (!file.flush()) throw Error("--dump " + std::to_string(dump.argument) + "=" + dump.path + ": cannot be written");
    }
    return report;
  }

 private:
  std::vector<uint8_t> make_buffer(const Argument& argument, size_t number, const std::string& parameter) {
    const std::string label = "argument " + std::to_string(number) + (parameter.empty() ? "" : " (" + parameter + ")");
    memory_[number] = device_.allocate(*argument.bytes, label);
    fill(argument, static_cast<uint8_t*>(memory_[number]), static_cast<uint32_t>(number));
    if (argument.fill != Fill::nothing) device_.initialise(memory_[number], *argument.bytes);
    std::vector<uint8_t> address(sizeof(void*));
    memcpy(address.data(), &memory_[number], sizeof(void*));
    return address;
  }

  Device device_;
  std::vector<uint8_t> block_;
  std::vector<void*> memory_;  // null for numbers
};

int run(const Options& options) {
  if (options.help) {
    fputs(kUsage, stdout);
    return kClean;
  }
  const auto code = CodeObject::open(options.image);
  if (options.list) {
    list(*code);
    return kClean;
  }
  const std::string kernel = name_of_kernel(*code, options);
  if (options.disassemble) {
    fputs(code->disassembly(kernel).c_str(), stdout);
    return kClean;
  }
  const Report report = Launch(*code, code->kernel(kernel), options).run(*code, kernel, options);
  fputs(report.text().c_str(), stdout);
  return report.clean() ? kClean : kFound;
}

}  // namespace
}  // namespace jaxator::emulator::command

int main(int count, char** words) {
  using namespace jaxator::emulator::command;
  try {
    return run(parse({words + 1, words + count}));
  } catch (const std::exception& error) {
    fprintf(stderr, "jaxator-emulate: %s\n", error.what());
    return kRefused;
  }
}
