/// @file
/// A CUDA driver for machines without a GPU (libjaxator_stub_cuda.so, opened by cuda::use_driver). It knows the kernels of a PTX
/// text with the sizes of their parameters, answers as an H200 would, keeps a record of what it was asked, and fails on demand.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace jaxator::testing {

struct StubLoad {
  std::string image;
  int result;
};

struct StubAttribute {
  std::string entry;
  int attribute, value;
};

struct StubLaunch {
  std::string entry;
  std::array<unsigned, 3> grid, block, cluster;  // cluster: ones where none was asked
  unsigned shared_bytes;
  void* stream;
  std::vector<std::string> arguments;  // bytes of each, as the kernel declares them

  template <class T> T argument(size_t i) const {
    T value;
    if (arguments.at(i).size() != sizeof value) throw std::length_error("argument of another size");
    std::memcpy(&value, arguments[i].data(), sizeof value);
    return value;
  }
};

struct StubTensorMap {
  int type;
  void* address;
  std::vector<uint64_t> sizes, strides;  // one stride less than sizes
  std::vector<unsigned> box, steps;
  int interleave, swizzle, promotion, fill;
};

struct StubFill {
  uint64_t address;
  unsigned value;
  size_t words;
};

struct StubRecord {
  std::vector<StubLoad> loads;
  std::vector<std::string> lookups;  // names of functions
  std::vector<StubAttribute> attributes;
  std::vector<StubLaunch> launches;
  std::vector<StubTensorMap> maps;
  std::vector<StubFill> fills;
};

enum StubResult {
  kStubInvalidValue = 1,
  kStubInvalidImage = 200,
  kStubNoBinary = 209,
  kStubInvalidPtx = 218,
  kStubNotFound = 500
};

constexpr int kStubDevices = 4, kStubMultiprocessors = 132, kStubMostSharedBytes = 232448;

/// What was asked since the last reset.
StubRecord stub_record();

/// Forgets the record and what was to fail.
void stub_reset();

/// The next `times` calls of a function of the driver, such as "cuModuleLoadDataEx", return this result; a load writes the log.
void stub_fail(const std::string& function, int result, int times = 1, const std::string& log = "");

}  // namespace jaxator::testing
