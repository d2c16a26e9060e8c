/// @file
/// The part of HIP's interface that the emulator offers (libjaxator_hip_emulator.so): what a program needs that loads code
/// objects and launches kernels. Our own declarations, so that no ROCm header is needed; tests compare them with Debian's.
///
/// Two devices: 0 is a gfx942, 1 a gfx950. Work is done when the call returns, so streams and events keep order without doing
/// anything. Whatever is wrong in a launch makes it fail with hipErrorLaunchFailure, and `jaxator_emulator_report` tells.
#pragma once

#include <stddef.h>

#ifndef JAXATOR_HIP
#define JAXATOR_HIP extern "C" __attribute__((visibility("default")))
#endif

typedef int hipError_t;
typedef struct ihipModule_t* hipModule_t;
typedef struct ihipModuleSymbol_t* hipFunction_t;
typedef struct ihipStream_t* hipStream_t;
typedef struct ihipEvent_t* hipEvent_t;

enum {
  hipSuccess = 0,
  hipErrorInvalidValue = 1,
  hipErrorOutOfMemory = 2,
  hipErrorInvalidDevice = 101,
  hipErrorInvalidImage = 200,
  hipErrorNoBinaryForGpu = 209,
  hipErrorInvalidHandle = 400,
  hipErrorNotFound = 500,
  hipErrorNotReady = 600,
  hipErrorLaunchFailure = 719,
  hipErrorUnknown = 999,
};

// Of hipDeviceAttribute_t.
enum {
  hipDeviceAttributeComputeCapabilityMajor = 23,
  hipDeviceAttributeMaxThreadsPerBlock = 56,
  hipDeviceAttributeComputeCapabilityMinor = 61,
  hipDeviceAttributeMultiprocessorCount = 63,
  hipDeviceAttributeMaxSharedMemoryPerBlock = 74,
  hipDeviceAttributeWarpSize = 87,
};

// Of hipFunction_attribute.
enum {
  HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
  HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
  HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,
  HIP_FUNC_ATTRIBUTE_NUM_REGS = 4,
};

enum { hipMemcpyHostToHost, hipMemcpyHostToDevice, hipMemcpyDeviceToHost, hipMemcpyDeviceToDevice, hipMemcpyDefault };

#define HIP_LAUNCH_PARAM_BUFFER_POINTER ((void*)0x01)
#define HIP_LAUNCH_PARAM_BUFFER_SIZE ((void*)0x02)
#define HIP_LAUNCH_PARAM_END ((void*)0x03)

/// hipDeviceProp_tR0600. Only the two texts are filled in, the rest is zero.
struct hipDeviceProp_tR0600 {
  char name[256];
  char other[904];
  char gcnArchName[256];
  char more[56];
};

JAXATOR_HIP const char* hipGetErrorName(hipError_t error);
JAXATOR_HIP const char* hipGetErrorString(hipError_t error);
JAXATOR_HIP hipError_t hipGetLastError();
JAXATOR_HIP hipError_t hipInit(unsigned flags);

JAXATOR_HIP hipError_t hipGetDeviceCount(int* count);
JAXATOR_HIP hipError_t hipGetDevice(int* device);
JAXATOR_HIP hipError_t hipSetDevice(int device);
JAXATOR_HIP hipError_t hipDeviceSynchronize();
JAXATOR_HIP hipError_t hipDeviceGetAttribute(int* value, int attribute, int device);
JAXATOR_HIP hipError_t hipGetDevicePropertiesR0600(hipDeviceProp_tR0600* properties, int device);

JAXATOR_HIP hipError_t hipModuleLoadData(hipModule_t* module, const void* image);
JAXATOR_HIP hipError_t hipModuleUnload(hipModule_t module);
JAXATOR_HIP hipError_t hipModuleGetFunction(hipFunction_t* function, hipModule_t module, const char* name);
JAXATOR_HIP hipError_t hipFuncGetAttribute(int* value, int attribute, hipFunction_t function);
JAXATOR_HIP hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                             unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                             hipStream_t stream, void** arguments, void** extra);

JAXATOR_HIP hipError_t hipMalloc(void** address, size_t bytes);
JAXATOR_HIP hipError_t hipFree(void* address);
JAXATOR_HIP hipError_t hipMemcpy(void* to, const void* from, size_t bytes, int kind);
JAXATOR_HIP hipError_t hipMemcpyAsync(void* to, const void* from, size_t bytes, int kind, hipStream_t stream);
JAXATOR_HIP hipError_t hipMemset(void* address, int value, size_t bytes);
JAXATOR_HIP hipError_t hipMemsetAsync(void* address, int value, size_t bytes, hipStream_t stream);
JAXATOR_HIP hipError_t hipHostRegister(void* address, size_t bytes, unsigned flags);
JAXATOR_HIP hipError_t hipHostUnregister(void* address);

JAXATOR_HIP hipError_t hipStreamCreate(hipStream_t* stream);
JAXATOR_HIP hipError_t hipStreamDestroy(hipStream_t stream);
JAXATOR_HIP hipError_t hipStreamSynchronize(hipStream_t stream);
JAXATOR_HIP hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned flags);
JAXATOR_HIP hipError_t hipEventCreate(hipEvent_t* event);
JAXATOR_HIP hipError_t hipEventDestroy(hipEvent_t event);
JAXATOR_HIP hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream);
JAXATOR_HIP hipError_t hipEventQuery(hipEvent_t event);
JAXATOR_HIP hipError_t hipEventSynchronize(hipEvent_t event);
JAXATOR_HIP hipError_t hipEventElapsedTime(float* milliseconds, hipEvent_t start, hipEvent_t stop);

// ---- beyond HIP ------------------------------------------------------------------------------------------------------------

/// What was wrong with the calling thread's last call that failed, in full; "" where the error's name says all.
JAXATOR_HIP const char* jaxator_emulator_report();

/// What launches look for from now on (jaxator::emulator::Check), the seed of the first launch's order of waves (each launch
/// takes the next), and the seconds after which a launch is given up (0: never). threads: 0 for all of the machine.
JAXATOR_HIP void jaxator_emulator_configure(unsigned checks, unsigned long long seed, int threads, double time_limit_s);

/// Launches run only `count` workgroups from `first` on (in the order of the grid's axes, x first) until it is called again; 0,
/// 0: all. For arrays whose whole grid would take too long.
JAXATOR_HIP void jaxator_emulator_run_part(unsigned long long first, unsigned long long count);

/// Lets kernels of one device use host memory, as hipHostRegister does for all. initialised=0: reads before writes are reported.
JAXATOR_HIP hipError_t jaxator_emulator_map(int device, void* address, size_t bytes, int initialised);
JAXATOR_HIP hipError_t jaxator_emulator_unmap(int device, void* address);

/// Keeps every launch from now on in the folder, as it begins; null: no longer. Launch N is N.json (kernel, architecture, grid,
/// block, dynamic_lds, memory), N.hsaco, N.arguments (the block of explicit arguments) and N.memoryK: what the arguments point
/// to.
JAXATOR_HIP hipError_t jaxator_emulator_record(const char* folder);
