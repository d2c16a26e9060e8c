/// The types of HIP's functions and the values of its constants, ours against those of an installed libamdhip64-dev. Nothing
/// runs: what differs does not compile.
#include <gtest/gtest.h>

#if !__has_include(<hip/hip_runtime_api.h>)
TEST(HipTypes, AreThoseOfTheHeaders) { GTEST_SKIP() << "no HIP headers here (Debian: libamdhip64-dev)"; }
#else

#define __HIP_PLATFORM_AMD__ 1
#include <hip/hip_runtime_api.h>
#include <stddef.h>

#include <type_traits>

#include "src/runtime/rocm/driver.h"

// Ours in a namespace, with another linkage: as declarations of the same functions the two would be compared too strictly.
namespace ours {
#define JAXATOR_HIP
#include "emulator/hip/hip.h"
}  // namespace ours

namespace {

/// A type as the calling convention sees it: enumerations are ints, handles and structs behind pointers are addresses.
template <class T> struct Abi {
  using type = std::conditional_t<std::is_enum_v<T>, int, T>;
};
template <class T> struct Abi<T*> {
  using bare = std::remove_cv_t<T>;
  using type =
      std::conditional_t<std::is_class_v<bare>, void*,
                         std::conditional_t<std::is_const_v<T>, const typename Abi<bare>::type*, typename Abi<bare>::type*>>;
};
template <class T> struct Abi<T**> {
  using type = std::conditional_t<std::is_class_v<T>, void**, typename Abi<T*>::type*>;
};
template <class Result, class... Args> struct Abi<Result(Args...)> {
  using type = typename Abi<Result>::type(typename Abi<Args>::type...);
};
template <class Result, class... Args> struct Abi<Result (*)(Args...)> : Abi<Result(Args...)> {};
template <class A, class B> inline constexpr bool kSame = std::is_same_v<typename Abi<A>::type, typename Abi<B>::type>;

// hipDeviceProp_tR0600 is newer than Debian's headers.
#define JAXATOR_HIP_FUNCTIONS(X)                                                                                         \
  X(Init)                                                                                                                \
  X(GetDeviceCount)                                                                                                      \
  X(GetDevice) X(SetDevice) X(DeviceSynchronize) X(DeviceGetAttribute) X(GetErrorName) X(GetErrorString) X(GetLastError) \
      X(ModuleLoadData) X(ModuleUnload) X(ModuleGetFunction) X(FuncGetAttribute) X(ModuleLaunchKernel) X(Free) X(Memcpy) \
          X(MemcpyAsync) X(Memset) X(MemsetAsync) X(HostRegister) X(HostUnregister) X(StreamCreate) X(StreamDestroy)     \
              X(StreamSynchronize) X(StreamWaitEvent) X(EventDestroy) X(EventRecord) X(EventQuery) X(EventSynchronize)   \
                  X(EventElapsedTime)
#define JAXATOR_SAME(function) static_assert(kSame<decltype(::hip##function), decltype(ours::hip##function)>, "hip" #function);
JAXATOR_HIP_FUNCTIONS(JAXATOR_SAME)
// Overloaded in C++.
static_assert(kSame<hipError_t(void**, size_t), decltype(ours::hipMalloc)>);
static_assert(kSame<hipError_t(hipEvent_t*), decltype(ours::hipEventCreate)>);

#define JAXATOR_DRIVER_FUNCTIONS(X)                                                                                \
  X(GetErrorName)                                                                                                  \
  X(GetErrorString)                                                                                                \
  X(Init) X(GetDeviceCount) X(GetDevice) X(SetDevice) X(DeviceGetAttribute) X(ModuleLoadData) X(ModuleGetFunction) \
      X(FuncGetAttribute) X(ModuleLaunchKernel)
#define JAXATOR_DRIVES(function) \
  static_assert(kSame<decltype(::hip##function), decltype(jaxator::rocm::Driver::function)>, "hip" #function);
JAXATOR_DRIVER_FUNCTIONS(JAXATOR_DRIVES)

#define JAXATOR_HIP_CONSTANTS(X)                                                                                             \
  X(hipSuccess)                                                                                                              \
  X(hipErrorInvalidValue)                                                                                                    \
  X(hipErrorOutOfMemory) X(hipErrorInvalidDevice) X(hipErrorInvalidImage) X(hipErrorNoBinaryForGpu) X(hipErrorInvalidHandle) \
      X(hipErrorNotFound) X(hipErrorNotReady) X(hipErrorLaunchFailure) X(hipErrorUnknown)                                    \
          X(hipDeviceAttributeComputeCapabilityMajor) X(hipDeviceAttributeComputeCapabilityMinor)                            \
              X(hipDeviceAttributeMaxThreadsPerBlock) X(hipDeviceAttributeMultiprocessorCount)                               \
                  X(hipDeviceAttributeMaxSharedMemoryPerBlock) X(hipDeviceAttributeWarpSize)                                 \
                      X(HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK) X(HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)                    \
                          X(HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES) X(HIP_FUNC_ATTRIBUTE_NUM_REGS) X(hipMemcpyHostToHost)       \
                              X(hipMemcpyHostToDevice) X(hipMemcpyDeviceToHost) X(hipMemcpyDeviceToDevice) X(hipMemcpyDefault)
#define JAXATOR_EQUAL(name) static_assert(static_cast<int>(::name) == static_cast<int>(ours::name), #name);
JAXATOR_HIP_CONSTANTS(JAXATOR_EQUAL)
static_assert(jaxator::rocm::kMultiprocessorCount == static_cast<int>(hipDeviceAttributeMultiprocessorCount));
static_assert(jaxator::rocm::kMaxThreadsPerBlock == static_cast<int>(HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
static_assert(jaxator::rocm::kSharedBytes == static_cast<int>(HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));

}  // namespace

TEST(HipTypes, AreThoseOfTheHeaders) {}

#endif
