/// @file
/// The emulator's interface for languages that call C: handles, and texts for results. Functions that fail return null (or -1)
/// and leave a message for jaxator_emulator_error. Texts live until the thread's next call.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Message of the last failure in this thread.
const char* jaxator_emulator_error(void);

void* jaxator_emulator_load(const void* image, size_t bytes);
void jaxator_emulator_unload(void* code);
/// JSON: architecture, and for each kernel what jaxator::emulator::KernelInfo has.
const char* jaxator_emulator_describe(void* code);
/// "address text" of each instruction of a kernel, one a line.
const char* jaxator_emulator_disassembly(void* code, const char* kernel);
/// Mnemonics of a kernel that are not implemented, one a line.
const char* jaxator_emulator_unknown_instructions(void* code, const char* kernel);
/// All mnemonics that are implemented, one a line.
const char* jaxator_emulator_instructions(void);

/// "gfx942" or "gfx950".
void* jaxator_emulator_device(const char* architecture);
void jaxator_emulator_close_device(void* device);
int jaxator_emulator_map(void* device, void* address, size_t bytes, const char* name, int initialised);
int jaxator_emulator_unmap(void* device, void* address);
void* jaxator_emulator_allocate(void* device, size_t bytes, const char* name);
int jaxator_emulator_free(void* device, void* address);
int jaxator_emulator_initialise(void* device, const void* address, size_t bytes);
/// -1 on failure.
int64_t jaxator_emulator_uninitialised_bytes(void* device, const void* address, size_t bytes);

/// jaxator::emulator::LaunchOptions.
typedef struct {
  uint32_t grid[3], block[3];
  uint32_t dynamic_lds_bytes;
  uint32_t checks;
  uint64_t seed;
  double time_limit_s;
  int32_t threads;
  uint32_t traced_workgroup;
  uint64_t first_workgroup, workgroups;
} jaxator_emulator_options;

/// JSON: completed, instructions, findings, banks, trace, traffic, executed, and the report as text. A step of the trace is
/// [address, wave] or, if it touched memory, also LDS cycles, bytes of global memory, begin and end in LDS, begin and end in
/// global memory.
const char* jaxator_emulator_launch(void* device, void* code, const char* kernel, const void* arguments, size_t argument_bytes,
                                    const jaxator_emulator_options* options);

#ifdef __cplusplus
}
#endif
