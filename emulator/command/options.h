/// @file
/// The command line of jaxator-emulate.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "jaxator/emulator.h"

namespace jaxator::emulator::command {

/// How the memory of an argument begins.
enum class Fill { nothing, zeros, random, file };

struct Argument {
  std::string text;             // as it was given
  std::vector<uint8_t> value;   // of a number
  std::optional<size_t> bytes;  // of a buffer
  Fill fill = Fill::nothing;
  std::string path;
};

struct Dump {
  size_t argument;
  std::string path;
};

struct Options {
  std::string image, kernel;
  std::vector<Argument> arguments;
  std::vector<Dump> dumps;
  LaunchOptions launch;
  bool list = false, disassemble = false, help = false;
};

extern const char* const kUsage;

/// Throws Error for what cannot be understood.
Options parse(const std::vector<std::string>& words);

}  // namespace jaxator::emulator::command
