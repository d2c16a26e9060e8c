/// @file
/// The kernels that the tests of the C++ interface run.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "jaxator/emulator.h"

namespace jaxator::emulator {

inline void PrintTo(Architecture architecture, std::ostream* out) { *out << name(architecture); }

}  // namespace jaxator::emulator

namespace jaxator::emulator::testing {

inline constexpr Architecture kArchitectures[] = {Architecture::gfx942, Architecture::gfx950};

inline std::string image_path(const std::string& kernel, Architecture architecture) {
  return std::string(JAXATOR_EMULATOR_KERNELS) + "/" + kernel + "." + name(architecture) + ".hsaco";
}

inline std::vector<uint8_t> image_of(const std::string& kernel, Architecture architecture) {
  std::ifstream file(image_path(kernel, architecture), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Expects `run` to throw an Error whose text contains `part`.
template <class Run> void expect_error(const std::string& part, Run&& run) {
  try {
    run();
    ADD_FAILURE() << "no error: " << part;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

}  // namespace jaxator::emulator::testing
