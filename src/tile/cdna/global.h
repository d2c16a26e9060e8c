/// @file
/// Pointers of parameter structs that host and device share: the device must know that they point to global memory, or it reads
/// them with flat instructions, which also occupy the LDS counter.
#pragma once

#if defined(__AMDGCN__)
#define JAXATOR_GLOBAL __attribute__((address_space(1)))
#else
#define JAXATOR_GLOBAL
#endif
