/// @file
/// The part of the CUDA driver's interface that is used here, by dlopen. Names and values are those of the driver API reference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace jaxator::cuda {

using Result = int;  // 0 is success

struct LaunchAttribute {
  unsigned id, padding;
  unsigned value[16];
};

struct LaunchConfig {
  unsigned grid[3], block[3], shared_bytes;
  void* stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};

/// A tensor map is opaque; kernels take it as a parameter in constant memory.
struct alignas(64) TensorMap {
  uint64_t words[16];
};

static_assert(sizeof(LaunchAttribute) == 72 && sizeof(LaunchConfig) == 56 && sizeof(TensorMap) == 128);

enum FunctionAttribute {
  kMaxThreadsPerBlock = 0,
  kMaxDynamicSharedBytes = 8,
  kRequiredClusterWidth = 11  // height and depth follow
};
enum DeviceAttribute {
  kMultiprocessorCount = 16,
  kComputeCapabilityMajor = 75,
  kComputeCapabilityMinor = 76,
  kMaxSharedBytesPerBlockOptin = 97
};
enum JitOption { kErrorLogBuffer = 5, kErrorLogBufferBytes = 6 };
enum LaunchAttributeId { kClusterDimension = 4 };

struct Driver {
  Result (*GetErrorName)(Result, const char**);
  Result (*GetErrorString)(Result, const char**);
  Result (*Init)(unsigned);
  Result (*DeviceGetCount)(int*);
  Result (*DeviceGet)(int*, int);
  Result (*DeviceGetName)(char*, int, int);
  Result (*DeviceGetAttribute)(int*, int, int);
  Result (*ModuleLoadDataEx)(void**, const void*, unsigned, int*, void**);
  Result (*ModuleGetFunction)(void**, void*, const char*);
  Result (*FuncGetAttribute)(int*, int, void*);
  Result (*FuncSetAttribute)(void*, int, int);
  Result (*LaunchKernelEx)(const LaunchConfig*, void*, void**, void**);
  Result (*MemsetD32Async)(uint64_t to, unsigned value, size_t words, void* stream);
  Result (*TensorMapEncodeTiled)(TensorMap*, int type, unsigned rank, void* address, const uint64_t* sizes,
                                 const uint64_t* strides, const unsigned* box, const unsigned* element_strides, int interleave,
                                 int swizzle, int l2_promotion, int out_of_bounds_fill);
  Result (*FuncGetParamInfo)(void*, size_t, size_t* offset, size_t* bytes);  // null before CUDA 12.4

  void* library = nullptr;         // as dlopen gave it
  const Driver* before = nullptr;  // the one that use_driver replaced
  std::string missing;             // why the driver cannot be used; "" if it can
};

/// The driver of this machine, opened once. Check `missing` before calling through it.
const Driver& driver();

/// The driver, or UnsupportedError that says why there is none.
const Driver& require_driver();

/// Opens this library instead of libcuda.so.1 from now on; tests use a driver that records what it is asked.
void use_driver(const char* path);

/// Throws CudaError with the driver's name and text for a result.
void check(Result result, const std::string& what, const std::string& log = "");

}  // namespace jaxator::cuda
